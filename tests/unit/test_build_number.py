# SPDX-License-Identifier: GPL-2.0
"""N of -tiershiftN: where it comes from, and what a repository takes of one number."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest
from debs import deb

from lab import run
from lab.deb import make, repo, sign
from lab.deb.debian import Debian
from lab.errors import LabError

VERSION = "6.12.117-1~deb12u1"
DEBIAN = Debian(VERSION, "amd64", "6.12.117+deb12-amd64")
KERNEL = "6.12.117-tiershift{}-amd64"


@pytest.fixture
def number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets what the file says."""
    path = tmp_path / "build-number"
    monkeypatch.setattr(make, "NUMBER", path)
    monkeypatch.setattr(make, "PACKAGING", tmp_path)

    def say(last: str) -> None:
        path.write_text(f"# SPDX-License-Identifier: GPL-2.0\n{last}", encoding="utf-8")

    return say


def test_number_of_the_tree_is_one() -> None:
    assert make.number() >= 1


def test_release_and_version_have_the_number(
    number: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make.Plan, "key", lambda _self: "0123456789abcdef")
    wanted, versions = make.Plan("amd64", make.FROM_DEBIAN, DEBIAN), []
    for last in ("9\n", "10\n"):
        number(last)
        assert wanted.release == KERNEL.format(last.strip())
        versions.append(make._version(wanted))
    assert versions[0].startswith(f"{VERSION}+tiershift.9.")
    # Whatever the commit is
    run.output(
        ["dpkg", "--compare-versions", versions[1].replace(".10.2", ".10.1"), "gt", versions[0]]
    )


@pytest.mark.parametrize("last", ["", "0\n", "-1\n", "two\n", "1\n# the end\n", "01\n"])
def test_number_that_is_none_is_refused(last: str, number: Callable[[str], None]) -> None:
    number("12\n")
    assert make.number() == 12
    number(last)
    with pytest.raises(LabError, match="build-number ends in"):
        make.number()


def test_only_kernels_of_the_number_are_published(
    number: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIERSHIFT_CACHE", str(tmp_path / "cache"))

    def built(directory: str, release: str, version: str, when: int) -> list[str]:
        place = tmp_path / "cache/packages" / directory
        place.mkdir(parents=True)
        names = [f"linux-{kind}-{release}_{version}_amd64.deb" for kind in ("headers", "image")]
        names.append("linux-kbuild-6.12.117_1_amd64.deb")
        for name in names:
            (place / name).touch()
        (place / "package.json").write_text(json.dumps({"file": names[1]}))
        os.utime(place / "package.json", (when, when))
        return names

    before = KERNEL.format(1)
    built("amd64-debian-1", before, "1", 1)
    latest = built("amd64-debian-2", KERNEL.format(2), "3", 3)
    built("amd64-debian-3", KERNEL.format(2), "2", 2)
    cloud = built("cloud-debian-1", "6.12.117-tiershift2-cloud-amd64", "1", 4)
    built("lab-build-1", "6.12.117-tiershift2-lab-amd64", "1", 5)
    number("2\n")
    assert sorted(path.name for path in make.every()) == sorted({*latest, *cloud})
    number("1\n")
    assert {path.parent.name for path in make.every()} == {"amd64-debian-1"}
    number("3\n")
    with pytest.raises(LabError, match="no package yet of number 3"):
        make.every()


def test_signed_or_unsigned_build_is_published_that_was_asked_for_last(
    number: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have one name, and the cache has both."""
    monkeypatch.setenv("TIERSHIFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(make.Plan, "key", lambda self: "signed" if self.keys else "plain")
    number("1\n")
    keys = (None, sign.Keys(tmp_path, ""))
    plans = [make.Plan("amd64", make.FROM_DEBIAN, DEBIAN, one) for one in keys]
    for wanted in plans:
        place = make._directory(wanted)
        place.mkdir()
        (place / f"linux-image-{wanted.release}_1_amd64.deb").touch()
        facts = {"file": f"linux-image-{wanted.release}_1_amd64.deb"}
        (place / "package.json").write_text(json.dumps(facts))
    for wanted in (*plans, *plans):
        for path in tmp_path.glob("cache/packages/*/package.json"):
            os.utime(path, (1, 1))
        found = make.finished(wanted)
        assert make.every() == [found] and found


# --- what a repository takes ------------------------------------------------------


def kernel(directory: Path, n: int, version: str, text: str = "") -> list[Path]:
    """An image and its headers."""
    directory.mkdir(exist_ok=True)
    return [
        deb(directory, f"linux-{kind}-{KERNEL.format(n)}", version, {"usr/x": text})
        for kind in ("image", "headers")
    ]


def contents(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*.*")}


def test_same_build_is_published_again(tmp_path: Path) -> None:
    debs = kernel(tmp_path / "a", 1, "1")
    out = tmp_path / "repo"
    repo.write(out, debs)
    before = contents(out)
    repo.write(out, debs)
    assert {name for name in contents(out) if name.endswith(".deb")} == {
        name for name in before if name.endswith(".deb")
    }


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("kind", [0, 1])
def test_other_build_of_the_same_number_is_refused(kind: int, version: str, tmp_path: Path) -> None:
    """Of a higher version, and of the same one with other contents."""
    out = tmp_path / "repo"
    repo.write(out, kernel(tmp_path / "a", 1, "1"))
    before = contents(out)
    other = kernel(tmp_path / "b", 1, version, "other")[kind]
    free = deb(tmp_path, "tierctl", "2")
    with pytest.raises(LabError, match=rf"another build of {other.name.partition('_')[0]}") as told:
        repo.write(out, [free, other])
    assert "raise the number in " in told.value.todo
    assert contents(out) == before


def test_both_numbers_stay_in_the_repository(tmp_path: Path) -> None:
    out = tmp_path / "repo"
    repo.write(out, kernel(tmp_path / "a", 1, "1"))
    repo.write(out, kernel(tmp_path / "b", 2, "2"))
    index = gzip.decompress((out / "Packages.gz").read_bytes()).decode()
    assert sorted(re.findall(r"^Package: (linux-image.*)$", index, re.M)) == [
        f"linux-image-{KERNEL.format(n)}" for n in (1, 2)
    ]


def test_other_packages_have_no_number(tmp_path: Path) -> None:
    out = tmp_path / "repo"
    for version in ("1", "2"):
        repo.write(out, [deb(tmp_path, "tiershift", version)])
    assert len([*out.glob("tiershift_*.deb")]) == 2


# --- indexes ----------------------------------------------------------------------


def release(out: Path) -> dict[str, str]:
    text = (out / "Release").read_text("utf-8")
    return dict(re.findall(r"^([\w-]+): (.+)$", text, re.MULTILINE))


def test_indexes_are_there_by_their_checksums(tmp_path: Path) -> None:
    out = tmp_path / "repo"
    repo.write(out, [deb(tmp_path, "tiershift", "1")])
    first = (out / "Packages").read_bytes()
    repo.write(out, [deb(tmp_path, "tiershift", "2")])
    assert release(out)["Acquire-By-Hash"] == "yes"
    assert release(out)["Codename"] == "tiershift"
    # Also those of before, for an apt that has read their Release
    for data in (first, (out / "Packages").read_bytes(), (out / "Packages.gz").read_bytes()):
        name = hashlib.sha256(data).hexdigest()
        assert (out / "by-hash/SHA256" / name).read_bytes() == data


def test_signed_index_ends_and_unsigned_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tmp_path / "plain"
    repo.write(plain, [])
    assert "Valid-Until" not in release(plain)
    text = repo._release(plain, signed=True)
    fields = dict(re.findall(r"^([\w-]+): (.+)$", text, re.MULTILINE))
    date, end = (parsedate_to_datetime(fields[name]) for name in ("Date", "Valid-Until"))
    assert (end - date).days == repo.VALID_DAYS
