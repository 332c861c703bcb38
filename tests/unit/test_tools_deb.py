# SPDX-License-Identifier: GPL-2.0
"""The packages without a kernel: what is in them, what they need, and what their scripts do."""

from __future__ import annotations

import argparse
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import cache, cli, run
from lab.deb import make, repo, tools
from lab.deb.tools import Image
from lab.errors import LabError

PROJECT = cache.PROJECT
TOOL = PROJECT / "tierctl"
IMAGE = Image("linux-image-6.12.117-tiershift1-amd64", "6.12.117-1~deb12u1+tiershift.1")
NUMBER = "0.1+20260101.0000.12345678"
PRIVATE = "usr/share/tierctl/tierctl"
# What dpkg may say to each script (Debian Policy, 6.5 to 6.8)
CALLS = {
    "postinst": [
        *("configure", "configure 1", "abort-upgrade 2", "abort-remove in-favour x 1"),
        *("abort-deconfigure in-favour x 1", "abort-remove"),
    ],
    "prerm": ["remove", "upgrade 2", "remove in-favour x 1", "failed-upgrade 1 2"],
    "postrm": [
        *("remove", "purge", "upgrade 2", "disappear x 1", "failed-upgrade 1", "abort-install"),
        *("abort-install 1", "abort-upgrade 1"),
    ],
}
STUBS = (
    *("deb-systemd-helper", "deb-systemd-invoke", "systemctl"),
    *("py3compile", "pypy3compile", "py3clean"),
)

# The packages are built once.
pytestmark = pytest.mark.xdist_group("tools_deb")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Packages by their names."""
    staged = tmp_path_factory.mktemp("built") / "tiershift"
    tools.stage(staged)
    found = tools.build(staged, NUMBER, IMAGE, b"a key\n")
    return {deb.name.partition("_")[0]: deb for deb in found}


@pytest.fixture(scope="module")
def unpacked(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of tierctl, its scripts in DEBIAN/."""
    directory = tmp_path_factory.mktemp("unpacked") / "tierctl"
    run.output(["dpkg-deb", "--raw-extract", built["tierctl"], directory])
    return directory


def field(deb: Path, name: str) -> str:
    return run.output(["dpkg-deb", "--field", deb, name]).strip()


def listing(deb: Path) -> dict[str, str]:
    """Modes and owners of the files of a package by their names."""
    found = {}
    for line in run.output(["dpkg-deb", "--contents", deb]).splitlines():
        mode, owner, _, date, _, name, *_ = line.split()
        assert date == "2026-01-01", line
        found[name.removeprefix("./")] = f"{mode} {owner}"
    del found[""]
    return found


# --- what is in them --------------------------------------------------------------


def test_all_of_the_tool_is_there_and_nothing_else(built: dict[str, Path]) -> None:
    names = {name for name in listing(built["tierctl"]) if not name.endswith("/")}
    in_tree = [
        path.relative_to(TOOL)
        for path in TOOL.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    code = {f"{PRIVATE}/{path}" for path in in_tree if path.parts[0] not in ("units", "share")}
    units = {f"usr/lib/systemd/system/{path.name}" for path in in_tree if "units" in path.parts}
    assert f"{PRIVATE}/cli.py" in code and "usr/lib/systemd/system/tierctl.service" in units
    assert names == code | units | {
        "usr/bin/tierctl",
        "usr/share/bash-completion/completions/tierctl",
        "usr/share/doc/tierctl/changelog.gz",
        "usr/share/doc/tierctl/copyright",
        "usr/share/doc/tierctl/examples/tierctl.toml",
        "usr/share/man/man5/tierctl.toml.5.gz",
        "usr/share/man/man8/tierctl.8.gz",
        "usr/share/python3/runtime.d/tierctl.rtupdate",
        "usr/share/tierctl/alerts.yml",
        "usr/share/tierctl/grafana-dashboard.json",
        "usr/share/tierctl/profiles",
        "usr/share/tierctl/schemas",
    }


def test_links_lead_somewhere(unpacked: Path) -> None:
    for name in ("profiles/general.toml", "schemas/status.json"):
        assert (unpacked / "usr/share/tierctl" / name).is_file()


def test_owners_and_modes(built: dict[str, Path]) -> None:
    for deb in built.values():
        for name, mode in listing(deb).items():
            runs = name.endswith("/") or name in ("usr/bin/tierctl",) or name.endswith(".rtupdate")
            kind = "l" if mode[0] == "l" else "d" if name.endswith("/") else "-"
            bits = "rwxrwxrwx" if kind == "l" else "rwxr-xr-x" if runs else "rw-r--r--"
            assert mode == f"{kind}{bits} root/root", name


def test_no_file_in_etc(built: dict[str, Path]) -> None:
    """Without a file in /etc/tierctl the unit that is enabled does nothing."""
    assert not [name for name in listing(built["tierctl"]) if name.startswith("etc")]
    unit = (TOOL / "units/tierctl.service").read_text("utf-8")
    conditions = re.findall(r"^Condition\w+=\|(.*)$", unit, re.MULTILINE)
    names = ("conf.d", "kept.toml", "tierctl.toml")
    assert sorted(conditions) == [f"/etc/tierctl/{name}" for name in names]


def test_manual_has_docs_with_links_that_hold(built: dict[str, Path]) -> None:
    top = "usr/share/doc/tiershift-doc"
    names = set(listing(built["tiershift-doc"]))
    assert {f"{top}/README.md", f"{top}/docs/operator.md"} <= names
    text = (PROJECT / "docs/operator.md").read_text("utf-8")
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert links
    for link in links:
        assert os.path.normpath(f"{top}/docs/{link}") in names


def test_key_is_where_apt_is_told(built: dict[str, Path]) -> None:
    assert tools.KEYRING_FILE.lstrip("/") in listing(built[tools.KEYRING])


# --- what they need ---------------------------------------------------------------


def test_dependencies(built: dict[str, Path]) -> None:
    tool, meta = built["tierctl"], built["tiershift"]
    assert {field(deb, "Architecture") for deb in built.values()} == {"all"}
    assert field(tool, "Depends") == "python3 (>= 3.11), python3:any"
    assert field(tool, "Recommends") == "python3-prometheus-client"
    assert field(tool, "Version") == NUMBER
    assert field(meta, "Depends") == f"tierctl, {IMAGE.name} (>= {IMAGE.version})"
    # Servers without DKMS need no compiler.
    assert field(meta, "Suggests") == "tiershift-headers"
    assert field(built["tiershift-headers"], "Depends") == (
        f"{IMAGE.name.replace('image', 'headers')} (>= {IMAGE.version})"
    )
    assert field(built["tiershift-doc"], "Depends") == ""
    assert field(built[tools.KEYRING], "Depends") == ""


def test_version_of_tiershift_grows_with_kernel_and_tool(built: dict[str, Path]) -> None:
    found = field(built["tiershift"], "Version")
    assert field(built["tiershift-headers"], "Version") == found
    assert found == f"6.12.117.1~deb12u1+tiershift.1+{NUMBER}"
    for newer in ("6.12.117.2~deb12u1+tiershift.1+0.1", "6.12.120.1+0.1", f"{found}.1"):
        run.output(["dpkg", "--compare-versions", newer, "gt", found])


def test_two_builds_have_the_same_bytes(built: dict[str, Path], tmp_path: Path) -> None:
    """In another directory, by a user whose files others may not read."""
    before = os.umask(0o077)
    try:
        staged = tmp_path / "a longer name/tiershift"
        tools.stage(staged)
        again = tools.build(staged, NUMBER, IMAGE, b"a key\n")
    finally:
        os.umask(before)
    assert [deb.name for deb in again] == sorted(deb.name for deb in built.values())
    for deb in again:
        assert deb.read_bytes() == built[deb.name.partition("_")[0]].read_bytes(), deb.name


# --- what is made of the parser ---------------------------------------------------


def tool(unpacked: Path, tmp_path: Path, *words: str) -> tuple[int, str]:
    """Exit code and texts of the unpacked program."""
    script = (unpacked / "usr/bin/tierctl").read_text("utf-8")
    assert script.startswith("#!/usr/bin/python3 -I\n") and '"/usr/share/tierctl"' in script
    moved = tmp_path / "tierctl"
    moved.write_text(script.replace('"/usr', f'"{unpacked}/usr'), encoding="utf-8")
    argv = [sys.executable, "-I", "-B", str(moved), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_program_starts(unpacked: Path, tmp_path: Path) -> None:
    code, said = tool(unpacked, tmp_path, "--version")
    assert code == 0 and said.startswith("tierctl ")
    code, said = tool(unpacked, tmp_path, "profile", "list")
    assert "general" in said


def manual(unpacked: Path, name: str) -> str:
    page = unpacked / f"usr/share/man/man{name[-1]}/{name}.gz"
    env = {"MANWIDTH": "80", "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    argv = ["man", "--warnings=w", "--local-file", str(page)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


def commands() -> list[str]:
    said = run.output([sys.executable, "-m", "tierctl", "--help"], cwd=PROJECT)
    return re.findall(r"^    ([a-z]+)  +\S", said, re.MULTILINE)


def test_manual_of_the_tool(unpacked: Path) -> None:
    text = manual(unpacked, "tierctl.8")
    assert text.startswith("TIERCTL(8)") and "tierctl - show and control" in text
    assert len(commands()) > 10
    for name in commands():
        assert re.search(rf"^   tierctl {name}$", text, re.MULTILINE), name
    for word in ("COMMON OPTIONS", "EXIT STATUS", "--json", "--dry-run", "tierctl.toml(5)"):
        assert word in text, word
    assert "UNSET" not in text


# What argparse-manpage 1.2 (Debian 12) and 4.5 (Debian 13) make of a parser
MADE_12 = r"""
.TH tierctl "1" Manual
.SH NAME
tierctl
.SH SYNOPSIS
.B tierctl
COMMAND ...
.SH OPTIONS
.SS
\fBSub-commands\fR
.TP
\fBtierctl\fR \fI\,set\/\fR
change
.SH OPTIONS 'tierctl set'
usage: tierctl set [-h]
                   [--forget]

.TP
\fBKEY\fR
which

.TP
\fB\-\-forget\fR
keep

.TP
\fB\-\-version\fR
show

.SH AUTHORS
.B tierctl
was written by x
"""
MADE_45 = r"""
.TH TIERCTL "1" "2026\-01\-01" "tierctl" "Generated Python Manual"
.SH NAME
tierctl
.SH SYNOPSIS
.B tierctl
COMMAND ...

.SH
POSITIONAL ARGUMENTS
.TP
\fBtierctl\fR \fI\,set\/\fR
change
.SH COMMAND \fI\,'tierctl set'\/\fR
usage: tierctl set [\-h]
                   [\-\-forget]

.SH
POSITIONAL ARGUMENTS \fI\,'tierctl set'\/\fR
.TP
\fBKEY\fR
which

.SH OPTIONS \fI\,'tierctl set'\/\fR
.TP
\fB\-\-forget\fR
keep

.SH OPTIONS
.TP
\fB\-\-version\fR
show

.SH COMMENTS
exit status
"""


def test_manual_is_the_same_with_both_versions_of_the_library() -> None:
    space = runpy.run_path(str(PROJECT / tools.DEBIAN / "manpage.py"))
    first, second = (str(space["page"](made)) for made in (MADE_12, MADE_45))
    assert first == second
    headings = re.findall(r"^\.S[HS] (.*)$", first, re.MULTILINE)
    assert headings[:6] == [
        *("NAME", "SYNOPSIS", "COMMANDS", '"tierctl set"', "COMMON OPTIONS", "EXIT STATUS")
    ]
    assert ".nf\ntierctl set [\\-h]\n                   [\\-\\-forget]\n.fi\n" in first


# A command that reads each table, and the name of the table
TABLES = {
    "": ("profile", "diff"),
    "export": ("export",),
    "record": ("record", "--samples", "1", "--directory", "RECORD"),
}


def of_file(unpacked: Path, tmp_path: Path, table: str, text: str) -> tuple[int, str]:
    """What the command of a table says where tierctl.toml is ``text``."""
    file = tmp_path / "root/etc/tierctl/tierctl.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    words = [word.replace("RECORD", str(tmp_path / "record")) for word in TABLES[table]]
    return tool(unpacked, tmp_path, "--root", str(tmp_path / "root"), *words)


@pytest.mark.parametrize("table", TABLES)
def test_manual_of_the_file_has_each_key(table: str, unpacked: Path, tmp_path: Path) -> None:
    text = manual(unpacked, "tierctl.toml.5")
    head = f"[{table}]\n" if table else ""
    code, said = of_file(unpacked, tmp_path, table, f"{head}nonsense = 1\n")
    assert code == 2 and "keys: " in said
    for key in said.partition("keys: ")[2].strip().split(", "):
        assert re.search(rf"^ +\[?{key}\b", text, re.MULTILINE), key
        said = of_file(unpacked, tmp_path, table, f"{head}{key} = 0\n")[1] if table else ""
        if limits := re.search(r"whole number from (\d+ to \d+)", said):
            assert re.search(rf"{key} .*?: {limits[1]}\.", " ".join(text.split())), key


@pytest.mark.parametrize("table", TABLES)
def test_example_of_the_file_is_right(table: str, unpacked: Path, tmp_path: Path) -> None:
    example = unpacked / "usr/share/doc/tierctl/examples/tierctl.toml"
    code, said = of_file(unpacked, tmp_path, table, example.read_text("utf-8"))
    # A kernel may lack what the profile sets.
    assert code in ((0, 4) if table == "" else (0,)), said


COMPLETE = """
. "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_shtab_tierctl
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["do"], {"doctor"}),
        (["profile", ""], {"list", "show", "diff", "apply", "verify", "revert"}),
        (["--json", "profile", "apply", "--d"], {"--dry-run"}),
        (["nothing-such"], set()),
    ],
)
def test_completion(words: list[str], expected: set[str], unpacked: Path) -> None:
    script = unpacked / "usr/share/bash-completion/completions/tierctl"
    said = run.output(["bash", "-c", COMPLETE, "bash", script, "tierctl", *words])
    assert {*said.split()} == expected
    # Where it knows nothing, names of files
    assert "complete -o filenames -o default -F" in script.read_text("utf-8")


def test_completion_has_all_commands(unpacked: Path) -> None:
    script = unpacked / "usr/share/bash-completion/completions/tierctl"
    said = run.output(["bash", "-c", COMPLETE, "bash", script, "tierctl", ""])
    assert said.split() == commands()


# --- scripts of the maintainer ----------------------------------------------------


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Path]:
    """A root directory; programs that scripts call write a line to calls."""
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    for name in STUBS:
        stub = tmp_path / "bin" / name
        stub.write_text(f'#!/bin/sh\necho "{name} $*" >>"{tmp_path}/calls"\n', encoding="utf-8")
        stub.chmod(0o755)
    yield tmp_path


def call(unpacked: Path, machine: Path, script: str, words: str) -> str:
    """Run a script with paths below the root directory; what it has called."""
    text = (unpacked / "DEBIAN" / script).read_text("utf-8")
    moved = re.sub(r"(?<=[\s=])/(?=(?:etc|run|var|usr/share)/)", f"{machine}/", text)
    moved = moved.replace("/usr/bin/deb-systemd", f"{machine}/bin/deb-systemd")
    assert not re.search(r"(?<=[\s=\"'])/(etc|run|var)/", moved), "a path would be the machine's"
    (machine / "calls").unlink(missing_ok=True)
    env = {"PATH": f"{machine}/bin:/usr/bin:/bin", "DPKG_MAINTSCRIPT_PACKAGE": "tierctl"}
    argv = ["sh", "-c", moved, script, *words.split()]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{script} {words}: {done.stderr}"
    calls = machine / "calls"
    return (calls.read_text() if calls.exists() else "") + done.stderr


@pytest.mark.parametrize("script", [*CALLS])
def test_scripts_refuse_nothing(script: str, unpacked: Path, machine: Path) -> None:
    assert {path.name for path in (unpacked / "DEBIAN").iterdir()} == {
        *CALLS,
        *("control", "md5sums"),
    }
    for words in CALLS[script]:
        call(unpacked, machine, script, words)


def test_only_the_profile_is_enabled_and_nothing_starts(unpacked: Path, machine: Path) -> None:
    stub = machine / "bin/deb-systemd-helper"
    # debian-installed fails on a new machine, so that postinst enables the unit.
    new = '[ "$1" != debian-installed ]\n'
    stub.write_text(stub.read_text("utf-8") + new, encoding="utf-8")
    said = call(unpacked, machine, "postinst", "configure")
    assert re.findall(r"helper enable (\S+)", said) == ["tierctl.service"]
    # deb-systemd-invoke starts no unit that is off.
    for found in re.findall(r"invoke \S+ (.*)", said):
        assert "tierctl.service" not in found
    said = call(unpacked, machine, "postinst", "configure 1")
    assert "invoke restart" in said and not re.search(r"invoke .*tierctl\.service", said)


def test_removal_stops_what_runs(unpacked: Path, machine: Path) -> None:
    said = call(unpacked, machine, "prerm", "remove")
    for unit in ("tierctl.service", "tierctl-export.timer", "tierctl-record.service"):
        assert re.search(rf"invoke stop .*{re.escape(unit)}", said), unit
    assert "invoke" not in call(unpacked, machine, "prerm", "upgrade 2")


def test_removal_says_what_stays(unpacked: Path, machine: Path) -> None:
    assert "stays" not in call(unpacked, machine, "prerm", "remove")
    (machine / "var/lib/tierctl").mkdir(parents=True)
    (machine / "var/lib/tierctl/before.json").write_text("{}")
    assert "stays until the next boot" in call(unpacked, machine, "prerm", "remove")
    assert "stays" not in call(unpacked, machine, "prerm", "upgrade 2")


def test_purge_takes_what_is_ours(unpacked: Path, machine: Path) -> None:
    units = machine / "etc/systemd/system"
    drop_in = "# Written by tierctl"
    source = "".join(path.read_text("utf-8") for path in TOOL.rglob("*.py"))
    assert f'HEADER = "{drop_in}' in source and '"50-tierctl.conf"' in source
    assert '"/etc/systemd/system"' in source
    ours = {
        "etc/tierctl/conf.d/a.toml": "x",
        "etc/tierctl/kept.toml": "x",
        "var/lib/tierctl/record/1": "x",
        "run/tierctl/looked": "x",
        "var/lib/prometheus/node-exporter/tierctl.prom": "x",
    }
    theirs = {
        "var/lib/prometheus/node-exporter/apt.prom": "x",
        "etc/systemd/system/b.service.d/50-tierctl.conf": "[Service]\n",
        "etc/systemd/system/c.service.d/override.conf": "x",
    }
    for name, text in (ours | theirs).items():
        (machine / name).parent.mkdir(parents=True, exist_ok=True)
        (machine / name).write_text(text)
    (units / "a.service.d").mkdir()
    (machine / "etc/elsewhere").mkdir()
    (units / "0.service.d").symlink_to("../../elsewhere")
    for unit in ("0", "a", "c"):
        (units / f"{unit}.service.d/50-tierctl.conf").write_text(
            f"{drop_in}; more of it.\n[Service]\n"
        )
    call(unpacked, machine, "postrm", "remove")
    assert not (machine / "var/lib/prometheus/node-exporter/tierctl.prom").exists()
    assert (machine / "etc/tierctl").exists() and (units / "a.service.d").exists()
    call(unpacked, machine, "postrm", "purge")
    left = {
        str(path.relative_to(machine))
        for path in machine.rglob("*")
        if path.is_file() and path.parts[len(machine.parts)] in ("etc", "run", "var")
    }
    assert left == {*theirs}
    assert not (units / "a.service.d").exists() and not (machine / "var/lib/tierctl").exists()


# --- versions, and what is kept ---------------------------------------------------


def test_newest_image() -> None:
    names = [
        "linux-image-6.12.99-tiershift1-amd64_6.12.99-1+tiershift.1_amd64.deb",
        "linux-image-6.12.117-tiershift1-amd64_6.12.117-1+tiershift.1_amd64.deb",
        "linux-image-6.12.120-tiershift1-cloud-amd64_6.12.120-1+tiershift.1_amd64.deb",
        "linux-headers-6.12.130-tiershift1-amd64_6.12.130-1+tiershift.1_amd64.deb",
        "linux-kbuild-6.12.130+deb12_6.12.130-1_amd64.deb",
    ]
    debs = [Path(name) for name in names]
    assert tools.newest(debs).name == "linux-image-6.12.117-tiershift1-amd64"
    assert tools.newest(debs[2:]).name == "linux-image-6.12.120-tiershift1-cloud-amd64"


def checkout(path: Path) -> Path:
    """A project that is small."""
    for name in ("tierctl/__init__.py", "docs/a.md", "README.md", "packaging/debian/rules"):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("x\n")
    (path / "tierctl/__init__.py").write_text('__version__ = "0.7"\n')
    (path / "tierctl/__pycache__").mkdir()
    (path / "linux/room/files/Documentation").mkdir(parents=True)
    return path


def test_version_is_of_the_content(tmp_path: Path) -> None:
    project, staged = checkout(tmp_path / "project"), tmp_path / "staged"
    tools.stage(staged, project)
    assert not (staged / "tierctl/__pycache__").exists()
    first = tools.version(staged, project)
    assert re.fullmatch(r"0\.7\+0\.[0-9a-f]{8}", first)
    git = ["git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a@invalid"]
    run.output([*git, "init", "-q"])
    run.output([*git, "add", "."])
    env = dict(os.environ, GIT_COMMITTER_DATE="2026-02-03T04:05:06Z")
    run.output([*git, "commit", "-qm", "all"], env=env)
    tools.stage(staged, project)
    assert tools.version(staged, project) == first.replace("+0.", "+20260203.0405.")
    (project / "docs/a.md").write_text("other\n")
    tools.stage(staged, project)
    other = tools.version(staged, project)
    assert other.startswith("0.7+20260203.0405~dirty.") and other[-8:] != first[-8:]
    (project / "tierctl/__init__.py").write_text("")
    tools.stage(staged, project)
    with pytest.raises(LabError, match="no __version__"):
        tools.version(staged, project)


def test_checkout_without_the_tool(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="has no tierctl/"):
        tools.stage(tmp_path / "staged", tmp_path)


def test_same_content_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIERSHIFT_CACHE", str(tmp_path))
    calls: list[Image | None] = []

    def build(staged: Path, number: str, image: Image | None, _key: bytes) -> list[Path]:
        calls.append(image)
        if len(calls) == 3:
            raise KeyboardInterrupt
        deb = staged.parent / f"tierctl_{number}_all.deb"
        deb.write_text("deb")
        return [deb]

    monkeypatch.setattr(tools, "build", build)
    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        first = tools.make(None, None, log)
        assert tools.make(None, None, log) == first and calls == [None]
        assert tools.make(IMAGE, None, log) != first and calls == [None, IMAGE]
        # An interrupted build leaves nothing that counts.
        other = Image("other", "1")
        with pytest.raises(KeyboardInterrupt):
            tools.make(other, None, log)
        assert tools.make(other, None, log)[0].exists() and len(calls) == 4
    assert first[0].read_text() == "deb"


# --- make deb, make repo ----------------------------------------------------------

Asked = list[tuple[Image | None, str | None]]
DEB = Path(f"/packages/{IMAGE.name}_{IMAGE.version}_amd64.deb")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """For which image and key packages were made; nothing is built."""
    calls: Asked = []

    def made(image: Image | None, key: str | None = None) -> list[Path]:
        calls.append((image, key))
        return [Path("/packages/tierctl_1_all.deb")]

    monkeypatch.setattr(tools, "make", made)
    monkeypatch.setattr(make, "plan", lambda *words: words)
    monkeypatch.setattr(make, "deb", lambda _plan: DEB)
    monkeypatch.setattr(make, "every", lambda: [DEB])
    return calls


def arguments(**more: str | None) -> argparse.Namespace:
    """Of make deb and make repo; to parse them takes seconds."""
    known = {"base": None, "modules": "debian", "out": "/nowhere", "key": None, "cert": None}
    return argparse.Namespace(**{**known, **more})


def test_make_deb(asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.make_deb(arguments(flavour="amd64")) == 0
    assert asked == [(IMAGE, None)]
    said = capsys.readouterr().out
    assert said.startswith(f"{DEB}\n/packages/tierctl_1_all.deb\n") and "apt install" in said
    assert cli.make_deb(arguments(flavour="none")) == 0
    assert asked[1:] == [(None, None)]
    assert str(DEB) not in capsys.readouterr().out


def test_make_repo(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written: list[list[Path]] = []
    monkeypatch.setattr(repo, "write", lambda _out, debs, _key: written.append(debs))
    assert cli.make_repo(arguments(key=None)) == 0
    assert asked == [(IMAGE, None)] and written == [[DEB, Path("/packages/tierctl_1_all.deb")]]
    assert "Trusted: yes" in capsys.readouterr().out
    # Before anything is built
    with pytest.raises(LabError, match="no secret key"):
        cli.make_repo(arguments(key="nobody@invalid"))
    assert len(asked) == len(written) == 1
    monkeypatch.setattr(repo, "check_key", lambda _key: None)
    assert cli.make_repo(arguments(key="me")) == 0
    assert asked[1:] == [(IMAGE, "me")]
    assert f"Signed-By: {tools.KEYRING_FILE}" in capsys.readouterr().out
