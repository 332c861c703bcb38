# SPDX-License-Identifier: GPL-2.0
"""The packages without a kernel, from a signed repository: install, upgrade, roll back, purge.

On Debian 12 and 13, in a root file system without a network.  Empty packages stand for each
kernel and its headers.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from debs import deb

from lab import cache, run
from lab.deb import repo, tools, trial
from lab.deb.tools import Image
from lab.deb.trial import Root

KERNELS = (
    Image("linux-image-6.12.117-tiershift1-amd64", "6.12.117-1~deb12u1+tiershift.1"),
    Image("linux-image-6.12.117-tiershift2-amd64", "6.12.117-1~deb12u1+tiershift.2"),
)
NUMBERS = ("0.1+20260101.0000.00000000", "0.1+20260102.0000.00000000")
ALL = ("tiershift", "tierctl", "tiershift-doc", tools.KEYRING)
HEADERS = "tiershift-headers"
WANTS = "etc/systemd/system/multi-user.target.wants"
DROP_IN = "etc/systemd/system/redis.service.d/50-tierctl.conf"
# What an administrator and tierctl write
WRITTEN = {
    "etc/tierctl/tierctl.toml": 'profile = "general"\n',
    "etc/tierctl/conf.d/mine.toml": "",
    "etc/tierctl/kept.toml": "# Written by tierctl; more of it.\n",
    "etc/tierctl/profiles/mine.toml": "",
    DROP_IN: "# Written by tierctl; more of it.\n[Service]\n",
    "var/lib/tierctl/before.json": "{}",
    "var/lib/tierctl/record/20260101": "",
}
needs_tool = pytest.mark.skipif(
    not (cache.PROJECT / "tierctl").exists(), reason="this checkout has no tierctl/"
)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A secret key of gpg."""
    home = tmp_path_factory.mktemp("gnupg")
    home.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GNUPGHOME", str(home))
        argv = ["gpg", "--batch", "--passphrase", "", "--quick-gen-key", "me@invalid", "ed25519"]
        run.output(argv)
        yield "me@invalid"
        subprocess.run(["gpgconf", "--kill", "all"], check=False)


@pytest.fixture(scope="module")
def released(key: str, tmp_path_factory: pytest.TempPathFactory) -> list[list[Path]]:
    """The packages of two states of the project, the second with the next build of a kernel."""
    public = run.output(["gpg", "--batch", "--armor", "--export", key]).encode()
    found = []
    for number, image in zip(NUMBERS, KERNELS, strict=True):
        staged = tmp_path_factory.mktemp("built") / "tiershift"
        tools.stage(staged)
        kernel = [
            deb(staged.parent, name, image.version) for name in (image.name, headers_of(image))
        ]
        found.append([*tools.build(staged, number, image, public), *kernel])
    return found


def headers_of(image: Image) -> str:
    return image.name.replace("image", "headers")


def versions(root: Root) -> dict[str, str]:
    """Of packages of ours that are installed."""
    argv = ["dpkg-query", "-W", "-f", "${db:Status-Abbrev}${Package} ${Version}\\n"]
    found = {}
    for line in root.run(*argv).splitlines():
        status, name, version = line.split()
        if status == "ii" and (name in ALL or "tiershift" in name):
            found[name] = version
    return found


def bytecode(root: Root) -> list[str]:
    return [name for name in root.names() if "share/tierctl" in name and "__pycache__" in name]


@needs_tool
@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_from_install_to_purge(
    suite: str, released: list[list[Path]], key: str, tmp_path: Path
) -> None:
    root = Root.unpack(trial.root_tar(suite, ["python3"]), tmp_path / "root")
    served = root.path / "srv/repo"
    repo.write(served, released[0], key)
    before = {name for name in root.names() if not name.startswith("srv/")}

    # Install
    shutil.copy(served / "tiershift.asc", root.path / tools.KEYRING_FILE.lstrip("/"))
    line = f"deb [signed-by={tools.KEYRING_FILE}] file:/srv/repo ./\n"
    sources = root.path / "etc/apt/sources.list"
    sources.write_text(line, encoding="utf-8")
    root.run("apt-get", "update")
    root.run("apt-get", "-y", "install", "tiershift", "tiershift-doc", tools.KEYRING)
    assert set(versions(root)) == {*ALL, KERNELS[0].name}
    assert versions(root)["tierctl"] == NUMBERS[0]
    assert root.run("tierctl", "--version").startswith("tierctl ")
    assert "general" in root.run("tierctl", "profile", "list")
    assert bytecode(root)
    # The profile's unit is on; it waits for a file in /etc/tierctl.
    units = root.path / "etc/systemd/system"
    assert (root.path / WANTS / "tierctl.service").is_symlink()
    enabled = sorted(path.name for path in units.rglob("tierctl*"))
    assert enabled == ["tierctl.service"]
    assert not (root.path / "etc/tierctl").exists()
    # dpkg knows no file that differs.
    assert root.run("dpkg", "--verify", *ALL) == ""

    # A machine with DKMS; others have no headers.
    root.run("apt-get", "-y", "install", HEADERS)
    assert set(versions(root)) == {*ALL, HEADERS, KERNELS[0].name, headers_of(KERNELS[0])}

    # Use, upgrade
    root.run("systemctl", "--quiet", "enable", "tierctl-record.service", "tierctl-export.timer")
    for name, text in WRITTEN.items():
        (root.path / name).parent.mkdir(parents=True, exist_ok=True)
        (root.path / name).write_text(text, encoding="utf-8")
    other = root.path / "etc/systemd/system/redis.service.d/other.conf"
    other.write_text("[Service]\n", encoding="utf-8")
    repo.write(served, released[1], key)
    root.run("apt-get", "update")
    root.run("apt-get", "-y", "dist-upgrade")
    # The kernel before stays, with its headers.
    kernels = {image.name for image in KERNELS} | {headers_of(image) for image in KERNELS}
    assert set(versions(root)) == {*ALL, HEADERS, *kernels}
    assert versions(root)["tierctl"] == NUMBERS[1]
    for name, text in WRITTEN.items():
        assert (root.path / name).read_text("utf-8") == text
    assert (root.path / WANTS / "tierctl-record.service").is_symlink()

    # Roll back
    root.run("apt-get", "-y", "--allow-downgrades", "install", f"tierctl={NUMBERS[0]}")
    assert versions(root)["tierctl"] == NUMBERS[0]
    assert root.run("tierctl", "--version").startswith("tierctl ")

    # Remove: what was written stays; install again; purge
    root.run("apt-get", "-y", "remove", "tierctl")
    assert not {"tierctl", "tiershift"} & set(versions(root))
    assert all((root.path / name).exists() for name in WRITTEN)
    assert not [name for name in root.names() if name.startswith("usr/share/tierctl")]
    root.run("apt-get", "-y", "install", "tiershift")
    assert (root.path / WANTS / "tierctl-record.service").is_symlink()
    root.run("apt-get", "-y", "purge", *ALL, HEADERS, *kernels)
    assert versions(root) == {}
    assert other.exists()
    other.unlink()
    other.parent.rmdir()
    sources.write_text("", encoding="utf-8")
    shutil.rmtree(served.parent)
    served.parent.mkdir()
    assert root.names() - before == set()
    assert before - root.names() == set()


@needs_tool
@pytest.mark.skipif(not shutil.which("lintian"), reason="there is no lintian")
def test_lintian_finds_nothing(released: list[list[Path]]) -> None:
    debs = [path for path in released[0] if path.name.endswith("_all.deb")]
    assert len(debs) == len({*ALL, HEADERS})
    argv: list[str | Path] = ["lintian", "--allow-root", "--fail-on", "error,warning", *debs]
    assert run.output(argv) == ""
