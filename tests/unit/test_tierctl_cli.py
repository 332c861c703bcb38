# SPDX-License-Identifier: GPL-2.0
"""tierctl's command line: each command on each machine, errors in one line, exit codes."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import tierctl_schemas
from tierctl_trees import DAMON, OLD, OURS, PLAIN, STOCK, build

from tierctl import cli
from tierctl.commands import status
from tierctl.core import text
from tierctl.core.errors import DENIED, FINDING, LACKING, USAGE, WELL, as_root
from tierctl.core.reply import harmless

PROJECT = Path(__file__).resolve().parents[2]
MACHINES = {"ours": OURS, "stock": STOCK, "damon": DAMON, "plain": PLAIN, "old": OLD}
COMMANDS = {
    "status": ["status", "--interval", "0.05"],
    "why": ["why", "node", "0"],
    "top": ["top", "--interval", "0.05"],
    "top-processes": ["top", "-p"],
    "doctor": ["doctor", "--interval", "0.05"],
    "heat": ["heat"],
    "forecast": ["forecast"],
}
Output = pytest.CaptureFixture[str]


def tierctl(root: Path, *words: str) -> int:
    """A command on a made-up machine."""
    return cli.main(["--root", str(root), *words])


@pytest.fixture(autouse=True)
def no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two samples, one at once after the other."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.fixture(scope="module")
def bundles(machines: dict[str, Path]) -> dict[str, str]:
    """Each machine as a bundle."""
    found = {}
    for name in MACHINES:
        found[name] = f"{machines[name]}.json.gz"
        words = ["capture", found[name], "--interval", "0.05"]
        assert tierctl(machines[name], *words) == WELL
    return found


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All made-up machines, an empty directory, and what is no directory."""
    base = tmp_path_factory.mktemp("machines")
    found = {name: build(base / name, spec).root for name, spec in MACHINES.items()}
    (base / "empty").mkdir()
    return found | {"empty": base / "empty", "none": base / "none"}


# --- all commands on all machines -------------------------------------------------


@pytest.mark.parametrize("machine", [*MACHINES, "empty", "none"])
@pytest.mark.parametrize("kind", COMMANDS)
def test_command_prints_text_of_80_columns_or_one_error_line(
    machines: dict[str, Path], machine: str, kind: str, capsys: Output
) -> None:
    code = tierctl(machines[machine], *COMMANDS[kind])
    out, err = capsys.readouterr()
    assert code in (WELL, FINDING, LACKING) and bool(err) == (code == LACKING)
    assert err.count("\n") <= 1 and "Traceback" not in err and "internal" not in err
    for line in out.splitlines():
        assert len(line) <= 80 and line.isascii() and line == line.rstrip()


@pytest.mark.parametrize("machine", [*MACHINES, "empty"])
@pytest.mark.parametrize("kind", COMMANDS)
def test_command_prints_json_of_its_schema(
    machines: dict[str, Path], machine: str, kind: str, capsys: Output
) -> None:
    code = tierctl(machines[machine], *COMMANDS[kind], "--json")
    out, err = capsys.readouterr()
    if code == LACKING:
        assert out == "" and err.startswith("tierctl: ")
        return
    document = json.loads(out)
    assert document["kind"] == kind and tierctl_schemas.check(document) == []


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", sorted({*COMMANDS} - {"top-processes"}))
def test_command_says_the_same_of_a_bundle(
    machines: dict[str, Path], bundles: dict[str, str], machine: str, kind: str, capsys: Output
) -> None:
    capsys.readouterr()
    live = tierctl(machines[machine], *COMMANDS[kind], "--json")
    expected, errors = capsys.readouterr()
    assert cli.main(["--from", bundles[machine], *COMMANDS[kind], "--json"]) == live
    out, err = capsys.readouterr()
    assert err == errors
    if out:
        found, wanted = json.loads(out), json.loads(expected)
        for one in (found, wanted):
            one.pop("time")
            for key in ("flow", "cost"):
                (one["data"].get(key) or {}).pop("interval_s", None)
                if kind == "forecast":  # it has no rates, and the reason for that differs
                    one["sources"].pop(key)
            one["data"].pop("interval_s", None)
        assert found == wanted


# --- bad input ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([], USAGE, "no command was given; see: tierctl --help"),
        (["frobnicate"], USAGE, "there is no command 'frobnicate'"),
        (["status", "--bogus"], USAGE, "unrecognized arguments: --bogus"),
        (["status", "--interval", "0"], USAGE, "not from 0.05 to 3600 seconds"),
        (["status", "--interval", "nan"], USAGE, "not from 0.05 to 3600 seconds"),
        (["status", "--interval", "x"], USAGE, "invalid interval value"),
        (["why", "node", "x"], USAGE, "invalid int value: 'x'"),
        (["why", "node", "99"], USAGE, "node 99 does not exist, or has no memory; nodes: 0-2"),
        (["why", "cpu", "1"], USAGE, "why cpu is unknown; try: tierctl why node 0"),
        (["top", "none.service"], USAGE, "there is no group none.service now"),
        (["top", "-n", "0"], USAGE, "0 is not from 1 to 20000"),
        (["top", "--bogus=9"], USAGE, "unrecognized arguments"),
        (["capture", "/none/such/b.json.gz"], USAGE, "there is no directory /none/such"),
        (["capture", "/"], USAGE, "/ is no regular file"),
        (["capture"], USAGE, "the following arguments are required: FILE"),
        (["run", "--scan", "11", "--", "true"], USAGE, "11 is not off, default, or 2 to 10"),
        (["run", "--scan", "1", "--", "true"], USAGE, "1 is not off"),
        (["run", "--scan", "off"], USAGE, "no program was given"),
        (["run", "true"], USAGE, "the following arguments are required: --scan"),
        (["--from", "/none", "status"], USAGE, "there is no bundle /none"),
    ],
)
def test_bad_input_is_one_line_with_its_exit_code(
    machines: dict[str, Path], capsys: Output, words: list[str], code: int, says: str
) -> None:
    assert tierctl(machines["ours"], *words) == code
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("tierctl: ") and err.count("\n") == 1 and says in err
    assert "; " in err


def test_common_options_may_come_behind_the_command(
    machines: dict[str, Path], capsys: Output
) -> None:
    root = str(machines["ours"])
    for words in (["--json", "why", "node", "0"], ["why", "node", "0", "--json"]):
        assert cli.main([*words, "--root", root]) == WELL
        assert json.loads(capsys.readouterr().out)["kind"] == "why"
    assert cli.main(["doctor", "--from"]) == USAGE
    assert "expected one argument" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "json", "bundle", "program"),
    [
        (["--json", "run", "--scan", "off", "ls"], True, None, ["ls"]),
        (["run", "--json", "--scan", "off", "ls"], True, None, ["ls"]),
        (
            ["run", "--scan", "off", "ls", "--json", "--from"],
            False,
            None,
            ["ls", "--json", "--from"],
        ),
        (["--from", "b", "run", "--scan", "off", "--", "--json"], False, "b", ["--", "--json"]),
    ],
)
def test_options_of_a_program_stay_with_it(
    words: list[str], json: bool, bundle: str | None, program: list[str]
) -> None:
    found = cli.parser("run").parse_args(words)
    assert (found.json, found.bundle, found.program) == (json, bundle, program)


@pytest.mark.parametrize(
    ("error", "code", "todo"),
    [
        (PermissionError(13, "Permission denied", "/x"), DENIED, as_root()),
        (OSError(5, "Input/output error", "/x"), USAGE, "check the path, or try again"),
    ],
)
def test_error_of_the_system_that_no_command_expects_is_one_line(
    machines: dict[str, Path],
    capsys: Output,
    monkeypatch: pytest.MonkeyPatch,
    error: OSError,
    code: int,
    todo: str,
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(status, "twice", refuse)
    assert tierctl(machines["ours"], "status") == code
    assert capsys.readouterr().err == f"tierctl: /x: {error.strerror}; {todo}\n"


def test_fault_of_tierctl_is_one_line_unless_it_is_wanted(
    machines: dict[str, Path], capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("no")

    monkeypatch.setattr(status, "twice", fail)
    assert tierctl(machines["ours"], "status") == USAGE
    assert "internal error, KeyError: 'no'; report it" in capsys.readouterr().err
    monkeypatch.setenv("TIERCTL_DEBUG", "1")
    with pytest.raises(KeyError):
        tierctl(machines["ours"], "status")


DAMAGED = (
    "proc/zoneinfo",
    "proc/vmstat",
    "proc/uptime",
    "proc/meminfo",
    "proc/2/task/2/children",
    "sys/devices/system/node/node0/meminfo",
    "sys/devices/system/node/has_cpu",
    "sys/devices/system/node/node2/access1/initiators/read_latency",
    "sys/devices/virtual/memory_tiering/memory_tier4/nodelist",
    "sys/devices/system/cpu/online",
    "sys/kernel/debug/lru_gen",
    "sys/kernel/mm/tier/state",
    "sys/fs/cgroup/system.slice/memory.numa_stat",
)


@pytest.mark.parametrize(
    "content", [b"", b"\xff\x00garbage 1 2\n", b"9" * 5000, "\u00b2 \u00b2".encode()], ids=len
)
def test_damaged_file_breaks_no_command(tmp_path: Path, capsys: Output, content: bytes) -> None:
    tree = build(tmp_path, replace(OURS, cpus=2, groups=2, processes=0))
    for path in DAMAGED:
        file = tree.root / path
        good = file.read_bytes()
        file.write_bytes(content)
        for kind in ("status", "doctor", "why", "top"):
            code = tierctl(tmp_path, *COMMANDS[kind])
            err = capsys.readouterr().err
            assert code in (WELL, FINDING, LACKING, USAGE)
            assert "internal" not in err and err.count("\n") <= 1, (path, kind)
        file.write_bytes(good)


@pytest.mark.parametrize("words", ["protection: (0, ", "cpuhp/"])
def test_number_with_thousands_of_digits_breaks_no_command(
    tmp_path: Path, capsys: Output, words: str
) -> None:
    tree = build(tmp_path, replace(OURS, cpus=2, groups=2, processes=0))
    texts = [one for one in tree.root.rglob("proc/**/*") if one.is_file()]
    damaged = [one for one in texts if words in one.read_text()]
    for one in damaged:
        one.write_text(one.read_text().replace(words, words + "9" * 5000))
    tierctl(tmp_path, *COMMANDS["status"])
    assert damaged and "internal" not in capsys.readouterr().err


# --- processes ---------------------------------------------------------------------


def process(words: list[str], **environment: str) -> subprocess.Popen[bytes]:
    """tierctl as a process of its own."""
    argv = [sys.executable, "-m", "tierctl", *words]
    pipe = subprocess.PIPE
    env = os.environ | environment
    return subprocess.Popen(argv, cwd=PROJECT, stdout=pipe, stderr=pipe, env=env)


def test_closed_pipe_is_quiet(machines: dict[str, Path]) -> None:
    found = process(["--root", str(machines["ours"]), "why", "node", "0"])
    assert found.stdout and found.stderr
    found.stdout.close()
    assert found.stderr.read() == b"" and found.wait() == 0


def test_names_that_the_terminal_cannot_show_are_escaped(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    tree.put("sys/fs/cgroup/system.slice/caf\u00e9.service/memory.numa_stat", "anon N0=99999999999")
    words = ["--root", str(tmp_path), "top", "--interval", "0.05"]
    found = process(words, PYTHONIOENCODING="ascii")
    out, err = found.communicate()
    assert err == b"" and b"caf\\xe9.service" in out


def test_colour_is_for_terminals_only_and_can_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert text.style_for(Terminal(), False).colour
    assert not text.style_for(Terminal(), True).colour
    assert not text.style_for(io.StringIO(), False).colour
    monkeypatch.setenv("NO_COLOR", "1")
    assert not text.style_for(Terminal(), False).colour


def test_control_characters_of_a_bundle_do_not_reach_the_terminal(
    tmp_path: Path, capsys: Output
) -> None:
    bundle = tmp_path / "b"
    bundle.write_bytes(gzip.compress(b'{"schema": "tierctl-bundle/\\u001b]0;title\\u0007"}'))
    assert cli.main(["--from", str(bundle), "status"]) == USAGE
    assert "tierctl-bundle/?]0;title?; install a newer" in capsys.readouterr().err
    assert harmless("\x1b[31mred\x1b[0m") == "\x1b[31mred\x1b[0m"
    assert harmless("a\x1b]0;title\x07b\x1b[2Jc\x9bd\te") == "a?]0;title?b?[2Jc?d?e"


def test_status_imports_no_module_that_it_does_not_need(machines: dict[str, Path]) -> None:
    """Imports are most of what `status` costs beside its limit of 50 ms of CPU."""
    words = ["tierctl", "--root", str(machines["ours"]), "status", "--interval", "0.05"]
    code = (
        f"import os; sys.argv = {words!r}; os._exit = lambda code: print(*sys.modules); "
        "from tierctl import __main__ as main; main.run()"
    )
    # With -S and -I nothing of the environment is imported.
    argv = [sys.executable, "-ISc", f"import sys; sys.path.insert(0, {str(PROJECT)!r}); {code}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    found = set(done.stdout.splitlines()[-1].split())
    heavy = {"json", "gzip", "shutil", "pathlib", "tomllib", "curses", "random", "subprocess"}
    heavy |= {"ast", "dis", "tokenize", "linecache"}  # of inspect, which dataclasses imports
    heavy |= {f"tierctl.commands.{name}" for name in ("profile", "top", "watch")}
    heavy |= {"tierctl.read.groups", "tierctl.watch.sampler"}
    assert not heavy & found and "tierctl.commands.status" in found
