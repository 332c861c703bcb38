# SPDX-License-Identifier: GPL-2.0
"""The format of bundles, which `tierctl capture` writes, and a bundle as a source.

A bundle is one JSON document, packed by gzip: schema, host, kernel, and samples with a time and
files.  Each file has its text, names of a directory (behind "PATH/.names"), a piece in base64
(behind "PATH@OFFSET+SIZE"), or the reason why it could not be read; null stands for what the
sample before has.
"""

from __future__ import annotations

import binascii
import gzip
import json
import os
import zlib
from pathlib import Path
from typing import Any, TypeVar

from tierctl.core import files
from tierctl.core.errors import DENIED, TierctlError
from tierctl.core.source import MISSING, Kept, Sample, Source, failure, names_key, piece_key

SCHEMA = "tierctl-bundle/1"
LIMIT = 512 << 20  # bytes of an unpacked bundle
LATEST = 1e12  # seconds since 1970
AGAIN = "copy it again, or capture again"
MAKE = "make one with: tierctl capture FILE"
T = TypeVar("T")


def unpack(path: str) -> dict[str, Any]:
    name = os.path.basename(path)
    try:
        with gzip.open(path) as file:
            data = file.read(LIMIT + 1)
        if len(data) > LIMIT:
            raise TierctlError(f"{name} unpacks to more than {LIMIT >> 20} MiB", AGAIN)
        found = json.loads(data)
        if not str(found["schema"]).startswith("tierctl-bundle/"):
            raise ValueError("another document")
    except FileNotFoundError:
        raise TierctlError(f"there is no bundle {path}", "check the name") from None
    except PermissionError:
        raise TierctlError(f"{path} may not be read", "check its permissions", DENIED) from None
    except (EOFError, zlib.error) as error:
        raise TierctlError(f"{name} is cut short or damaged", AGAIN) from error
    except (OSError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise TierctlError(f"{name} is no bundle of tierctl, or is damaged", MAKE) from error
    if found["schema"] != SCHEMA:
        raise TierctlError(f"{name} has the schema {found['schema']}", "install a newer tierctl")
    return dict(found)


def save(path: Path, samples: list[Sample], host: str, kernel: str) -> None:
    """Write a bundle that only its owner may read, whole or not at all; raises OSError."""
    rows: list[dict[str, Any]] = []
    before: dict[str, Kept] = {}
    for one in samples:
        new = {key: None if before.get(key) == kept else kept for key, kept in one.files.items()}
        rows.append({"time": round(one.time, 6), "files": new})
        before |= one.files
    found = {"schema": SCHEMA, "host": host, "kernel": kernel, "samples": rows}
    packed = gzip.compress(json.dumps(found, separators=(",", ":")).encode(), 9, mtime=0)
    files.replace(path, packed, private=True)


class Bundle(Source):
    """A file that `tierctl capture` has written."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.name = os.path.basename(path)
        self._now = 0
        try:
            before: dict[str, Kept] = {}
            self._samples: list[Sample] = []
            for one in unpack(path)["samples"]:
                rows = one["files"].items()
                new = {key: before[key] if kept is None else kept for key, kept in rows}
                if not 0 <= one["time"] < LATEST:
                    raise ValueError("no time")
                self._samples.append(Sample(one["time"] + 0.0, new))
                before |= new
            if not self._samples:
                raise ValueError("no sample")
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise TierctlError(f"{self.name} is damaged", "capture again") from error

    @property
    def samples(self) -> int:
        return len(self._samples)

    def go(self, number: int) -> None:
        self._now = number

    def _content(self, key: str, path: str, kind: type[T]) -> T:
        found = self._samples[self._now].files.get(key, {"why": MISSING})
        if isinstance(found, dict) and "why" in found:
            raise failure(str(found["why"]), path)
        if not isinstance(found, kind):
            raise failure("failed: the bundle is damaged", path)
        return found

    def read(self, path: str) -> str:
        return self._content(path, path, str)

    def entries(self, path: str) -> list[str]:
        return [str(one) for one in self._content(names_key(path), path, list)]

    def pread(self, path: str, size: int, offset: int) -> bytes:
        found = self._content(piece_key(path, size, offset), path, dict)
        try:
            return binascii.a2b_base64(found["b64"])
        except (LookupError, TypeError, ValueError):
            raise failure("failed: the bundle is damaged", path) from None

    def time(self) -> float:
        return self._samples[self._now].time

    def wait(self, seconds: float) -> None:
        if self._now + 1 >= len(self._samples):
            raise EOFError("the bundle has no further sample")
        self._now += 1
