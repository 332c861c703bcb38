# SPDX-License-Identifier: GPL-2.0
"""The first thing a new user meets: errors that say what to do, before any work."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from lab import cache, source, tree
from lab.cli import main
from lab.errors import LabError


def _bootstrap(**env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(cache.PROJECT / "bootstrap.sh")],
        env=dict(os.environ, **env),
        capture_output=True,
        text=True,
        check=False,
    )


def test_prints_the_environment() -> None:
    done = _bootstrap()
    assert done.returncode == 0, done.stderr
    assert (Path(done.stdout.strip()) / "bin" / "vng").exists()


def test_without_home() -> None:
    """cron and services have none; the cache is then where the user's record says."""
    bare = {
        name: value
        for name, value in os.environ.items()
        if name not in {"HOME", "TIERSHIFT_CACHE", "XDG_CACHE_HOME"}
    }
    ask = 'import os; from lab import cache; print(cache.root(), os.environ["HOME"])'
    for argv in (["./bootstrap.sh"], [sys.executable, "-c", ask]):
        done = subprocess.run(
            argv, env=bare, cwd=cache.PROJECT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(pwd.getpwuid(os.getuid()).pw_dir + "/"), done.stdout


def test_unsupported_system(tmp_path: Path) -> None:
    release = tmp_path / "os-release"
    release.write_text('ID=other\nVERSION_ID="1"\nPRETTY_NAME="Other 1"\n', encoding="utf-8")
    done = _bootstrap(TIERSHIFT_OS_RELEASE=str(release))
    assert done.returncode == 1
    assert "unsupported operating system: Other 1" in done.stderr
    assert "Debian 12 or 13" in done.stderr


def test_unsupported_architecture() -> None:
    done = _bootstrap(TIERSHIFT_MACHINE="riscv64")
    assert done.returncode == 1
    assert "unsupported architecture: riscv64" in done.stderr


def test_cache_inside_the_checkout_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIERSHIFT_CACHE", str(cache.PROJECT / "cache"))
    with pytest.raises(LabError, match="inside the checkout"):
        cache.root()
    assert not (cache.PROJECT / "cache").exists()


def test_too_little_disk() -> None:
    with pytest.raises(LabError, match="needs 1e\\+06 GiB"):
        cache.need_space(1e6, "a test")


def test_no_package_archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Empty package lists look like no network: say so."""
    config = tmp_path / "apt.conf"
    config.write_text(f'Dir::State::lists "{tmp_path}/none";\nDir::Cache "{tmp_path}";\n')
    monkeypatch.setenv("APT_CONFIG", str(config))
    with pytest.raises(LabError, match="offers no linux-source"):
        source.offered()


def test_download_failure_names_the_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIERSHIFT_CACHE", str(tmp_path))
    with pytest.raises(LabError, match="download") as caught:
        source.package("6.12.0-0")
    assert "network" in caught.value.todo


def test_command_line_errors_exit_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is unpacked or built."""
    monkeypatch.setattr(tree, "compose", lambda *_: pytest.fail("the tree was composed"))
    monkeypatch.setattr(tree, "base_commit", lambda *_: pytest.fail("the base was unpacked"))
    assert main(["run", "no-such-scenario"]) == 1
    assert "no-such-scenario" in capsys.readouterr().err
    assert main(["kernels", "no-such-flavour"]) == 1
    assert main(["run", "--external", "nonsense"]) == 1
