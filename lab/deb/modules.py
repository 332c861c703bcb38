# SPDX-License-Identifier: GPL-2.0
"""Debian's modules for our vmlinux: without BTF, which names types of Debian's vmlinux by number.

With it the kernel would find numbers out of range and complain of each module.  The signature
goes with it: our vmlinux does not have the key.
"""

from __future__ import annotations

import lzma
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from lab import progress
from lab.errors import LabError

# As the kernel's own decompressor wants it
XZ = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 20}]
SECTIONS = (".BTF", ".BTF.base")


def pack(module: bytes) -> bytes:
    """A module as kmod and the kernel unpack it."""
    return lzma.compress(module, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC32, filters=XZ)


def strip(path: Path) -> None:
    """Take BTF and signature off a module, in place."""
    with tempfile.TemporaryDirectory() as name:
        plain = Path(name) / path.stem
        plain.write_bytes(lzma.decompress(path.read_bytes()))
        remove = [f"--remove-section={section}" for section in SECTIONS]
        subprocess.run(["objcopy", *remove, plain], check=True, capture_output=True)
        path.write_bytes(pack(plain.read_bytes()))


def strip_all(top: Path, log: TextIO = sys.stderr) -> int:
    """All modules below a directory; how many there are."""
    found = sorted(top.rglob("*.ko.xz"))
    if not found:
        raise LabError(f"{top} has no modules (*.ko.xz)", "delete the image package in debs/")
    with multiprocessing.Pool(os.cpu_count()) as pool:
        done: Iterable[None] = pool.imap_unordered(strip, found, chunksize=8)
        for number, _ in enumerate(done, 1):
            progress.say(log, f"modules: {number} of {len(found)} stripped", every_s=10)
    progress.say(log, f"modules: {len(found)} stripped", end=True)
    return len(found)
