# SPDX-License-Identifier: GPL-2.0
"""Debian's modules for our vmlinux: without BTF, which names types of Debian's vmlinux by number.

With it the kernel would find numbers out of range and complain of each module.  The signature
goes with it: our vmlinux does not have the key.
"""

from __future__ import annotations

import lzma
import os
import sys
from collections.abc import Iterable, Sequence
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import TextIO

from lab import progress, run
from lab.errors import LabError

# As the kernel's own decompressor wants it
XZ = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 20}]
SECTIONS = (".BTF", ".BTF.base")


def pack(module: bytes) -> bytes:
    """A module as kmod and the kernel unpack it."""
    return lzma.compress(module, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC32, filters=XZ)


def strip(path: Path) -> None:
    """Take BTF and signature off a module, in place."""
    plain = path.with_suffix("")
    plain.write_bytes(lzma.decompress(path.read_bytes()))
    run.output(["objcopy", *(f"--remove-section={section}" for section in SECTIONS), plain])
    path.write_bytes(pack(plain.read_bytes()))
    plain.unlink()


def replace(path: Path, built: Path) -> None:
    """Put a module that was built here in the place of Debian's (``path``)."""
    plain = path.with_suffix("")
    run.output(["objcopy", "--strip-debug", built, plain])
    path.write_bytes(pack(plain.read_bytes()))
    plain.unlink()


def needs(paths: Sequence[Path]) -> dict[str, list[str]]:
    """Names of the modules that each module needs, by its own name, with - as _."""
    said = run.output(["modinfo", "-F", "depends", *paths]).splitlines()
    if len(said) != len(paths):
        raise LabError("modinfo does not know what each module depends on", "install kmod")
    split = [[name for name in line.replace("-", "_").split(",") if name] for line in said]
    return {name_of(path): found for path, found in zip(paths, split, strict=True)}


def name_of(path: Path) -> str:
    """kvm_amd of .../kvm-amd.ko.xz"""
    return path.name.partition(".")[0].replace("-", "_")


def strip_all(top: Path, log: TextIO = sys.stderr) -> int:
    """All modules below a directory; how many there are."""
    found = sorted(top.rglob("*.ko.xz"))
    if not found:
        raise LabError(f"{top} has no modules (*.ko.xz)", "delete the image package in debs/")
    with ThreadPool(os.cpu_count()) as pool:
        done: Iterable[None] = pool.imap_unordered(strip, found, chunksize=8)
        for number, _ in enumerate(done, 1):
            progress.say(log, f"modules: {number} of {len(found)} stripped", every_s=10)
    progress.say(log, f"modules: {len(found)} stripped", end=True)
    return len(found)
