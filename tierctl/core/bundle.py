# SPDX-License-Identifier: GPL-2.0
"""The format of bundles, which `tierctl capture` writes, and a bundle as a source.

A bundle is a .tar.gz.  Its first member manifest.json has each path with a ``state``; where
samples differ, ``samples`` lists the states, and null stands for a path that was not read.  The
content of a path is the member NUMBER/PATH.  A member that a later sample lacks has the content
of the sample before; ``members`` counts all members behind the manifest, so that no loss passes
for that.
"""

from __future__ import annotations

import bisect
import io
import json
import os
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tierctl.core import files
from tierctl.core.errors import DENIED, TierctlError
from tierctl.core.source import MISSING, Sample, Source, failure

SCHEMA = "tierctl-bundle/1"
MANIFEST = "manifest.json"
NAMES = ".names"  # member that lists a directory; directories end in "/"
LIMIT = 512 << 20  # bytes of an unpacked bundle
OK = "ok"
AGAIN = "copy it again, or capture again"
MAKE = "make one with: tierctl capture FILE"


def piece_name(path: str, size: int, offset: int) -> str:
    """The name of a piece of a binary file in a bundle."""
    return f"{path}@{offset}+{size}"


def unpack(path: str) -> dict[str, bytes]:
    """The members of a bundle by name, manifest first."""
    name = os.path.basename(path)
    found: dict[str, bytes] = {}
    total = 0
    try:
        with tarfile.open(path, "r|gz") as archive:
            for member in archive:
                if not member.isfile():
                    continue
                if not found and member.name != MANIFEST:
                    raise tarfile.ReadError("the manifest is not first")
                total += member.size
                if total > LIMIT:
                    raise TierctlError(f"{name} unpacks to more than {LIMIT >> 20} MiB", AGAIN)
                file = archive.extractfile(member)
                data = file.read() if file else b""
                if len(data) != member.size:
                    raise EOFError
                found[member.name] = data
    except FileNotFoundError:
        raise TierctlError(f"there is no bundle {path}", "check the name") from None
    except PermissionError:
        raise TierctlError(f"{path} may not be read", "check its permissions", DENIED) from None
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        what = "is cut short or damaged" if found else "is no bundle of tierctl"
        if isinstance(error, EOFError | zlib.error) or "end of" in str(error):
            what = "is cut short or damaged"
        todo = AGAIN if "cut" in what else MAKE
        raise TierctlError(f"{name} {what}", todo) from error
    return found


def _states(entry: dict[str, Any], samples: int) -> list[str | None]:
    """The state of a path in each sample; a manifest that is damaged raises TypeError."""
    found = entry.get("samples") or [entry["state"]] * samples
    if not isinstance(entry["state"], str) or any(not isinstance(one, str | None) for one in found):
        raise TypeError("no state")
    return list(found)


def _members(samples: list[Sample]) -> tuple[dict[str, list[str | None]], dict[str, bytes]]:
    """States of each key by sample, and the members that differ from the sample before."""
    states: dict[str, list[str | None]] = {}
    members: dict[str, bytes] = {}
    last: dict[str, bytes] = {}
    for number, sample in enumerate(samples):
        content: dict[str, bytes | str] = dict(sample.files)
        for path, names in sample.directories.items():
            listed = names if isinstance(names, str) else "\n".join(names).encode()
            content[f"{path.rstrip('/')}/{NAMES}"] = listed
        for (path, size, offset), piece in sample.pieces.items():
            content[piece_name(path, size, offset)] = piece
        for key, value in content.items():
            row = states.setdefault(key, [None] * len(samples))
            row[number] = OK if isinstance(value, bytes) else value
            if isinstance(value, bytes) and last.get(key) != value:
                members[f"{number}{key}"] = last[key] = value
    return states, members


def save(path: Path, samples: list[Sample], host: str, kernel: str) -> None:
    """Write a bundle that only its owner may read, whole or not at all; raises OSError."""
    states, members = _members(samples)
    entries: dict[str, dict[str, object]] = {}
    for key, row in sorted(states.items()):
        entries[key] = {"state": next(state for state in reversed(row) if state is not None)}
        if len(set(row)) > 1:
            entries[key]["samples"] = row
    manifest = {
        "schema": SCHEMA,
        "host": host,
        "kernel": kernel,
        "samples": [{"time": round(one.time, 6)} for one in samples],
        "members": len(members),
        "files": entries,
    }
    listed = {MANIFEST: json.dumps(manifest, indent=1).encode()} | dict(sorted(members.items()))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, data in listed.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(data), int(samples[0].time), 0o600
            archive.addfile(member, io.BytesIO(data))
    files.replace(path, packed.getvalue(), private=True)


class Bundle(Source):
    """A file that `tierctl capture` has written."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.name = os.path.basename(path)
        self._members: Mapping[str, bytes] = unpack(path)
        self._times: list[float] = []
        self._states: dict[str, list[str | None]] = {}  # by key and sample
        self._read_manifest(self._members.get(MANIFEST, b""))
        self._now = 0
        self._numbers = self._index()
        for key, states in self._states.items():
            if OK in states and self._data(key, states.index(OK)) is None:
                raise TierctlError(f"{self.name} is cut short or damaged: it lacks {key}", AGAIN)

    def _read_manifest(self, data: bytes) -> None:
        try:
            found = json.loads(data)
        except ValueError:
            found = None
        schema = found.get("schema") if isinstance(found, dict) else None
        if not isinstance(schema, str) or not schema.startswith("tierctl-bundle/"):
            raise TierctlError(f"{self.name} is no bundle of tierctl", MAKE)
        if schema != SCHEMA:
            raise TierctlError(f"{self.name} has the schema {schema}", "install a newer tierctl")
        try:
            self._times = [one["time"] + 0.0 for one in found["samples"]]
            count = len(self._times)
            self._states = {key: _states(one, count) for key, one in found["files"].items()}
            wanted = found.get("members")
        except (ValueError, KeyError, TypeError, AttributeError):
            count = 0
        if not count:
            raise TierctlError(f"the manifest of {self.name} is damaged", "capture again")
        if wanted is not None and wanted != len(self._members) - 1:
            raise TierctlError(
                f"{self.name} is cut short: it lacks some of {wanted} members", AGAIN
            )

    def _index(self) -> dict[str, list[int]]:
        """The samples that have a member of their own, by key."""
        found: dict[str, list[int]] = {}
        for member in self._members:
            number, slash, rest = member.partition("/")
            if slash and number.isascii() and number.isdecimal() and str(int(number)) == number:
                found.setdefault(f"/{rest}", []).append(int(number))
        for numbers in found.values():
            numbers.sort()
        return found

    @property
    def samples(self) -> int:
        """How many samples it has."""
        return len(self._times)

    def go(self, number: int) -> None:
        """Go to a sample."""
        self._now = number

    def _state(self, key: str, number: int) -> str:
        states = self._states.get(key, [])
        return (states[number] if number < len(states) else None) or MISSING

    def _data(self, key: str, number: int) -> bytes | None:
        numbers = self._numbers.get(key, [])
        at = bisect.bisect_right(numbers, number)
        return self._members[f"{numbers[at - 1]}{key}"] if at else None

    def _content(self, key: str, path: str) -> bytes:
        state = self._state(key, self._now)
        if state != OK:
            raise failure(state, path)
        data = self._data(key, self._now)
        if data is None:
            raise failure(MISSING, path)
        return data

    def read(self, path: str) -> str:
        return self._content(path, path).decode("utf-8", "backslashreplace").removesuffix("\n")

    def _directory(self, path: str) -> list[str]:
        return (
            self._content(f"{path.rstrip('/')}/{NAMES}", path)
            .decode("utf-8", "backslashreplace")
            .split("\n")
        )

    def names(self, path: str) -> list[str]:
        return sorted(one.rstrip("/") for one in self._directory(path) if one)

    def dirs(self, path: str) -> list[str]:
        return sorted(one[:-1] for one in self._directory(path) if one.endswith("/"))

    def pread(self, path: str, size: int, offset: int) -> bytes:
        return self._content(piece_name(path, size, offset), path)

    def time(self) -> float:
        return self._times[self._now]

    def wait(self, seconds: float) -> None:
        if self._now + 1 >= len(self._times):
            raise EOFError("the bundle has no further sample")
        self._now += 1
