# SPDX-License-Identifier: GPL-2.0
"""Debian's modules for our vmlinux: without BTF, which names types of Debian's vmlinux by number.

With it the kernel would find numbers out of range and complain of each module.  The signature
goes with it: our vmlinux does not have the key.
"""

from __future__ import annotations

import lzma
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
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


def change(path: Path, work: Callable[[Path], None]) -> None:
    """Let ``work`` change the unpacked file of a module, and pack that again."""
    plain = path.with_suffix("")
    plain.write_bytes(lzma.decompress(path.read_bytes()))
    work(plain)
    path.write_bytes(pack(plain.read_bytes()))
    plain.unlink()


def strip(plain: Path) -> None:
    """Take BTF and signature off a module."""
    run.output(["objcopy", *(f"--remove-section={section}" for section in SECTIONS), plain])


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
    return change_all(top, "stripped", strip, log)


def change_all(top: Path, done: str, work: Callable[[Path], None], log: TextIO) -> int:
    """Let ``work`` change all modules below a directory; how many there are."""
    found = sorted(top.rglob("*.ko.xz"))
    if not found:
        raise LabError(f"{top} has no modules (*.ko.xz)", "delete the image package in debs/")
    with ThreadPool(os.cpu_count()) as pool:
        results = pool.imap_unordered(partial(change, work=work), found, chunksize=8)
        for number, _ in enumerate(results, 1):
            progress.say(log, f"modules: {number} of {len(found)} {done}", every_s=10)
    progress.say(log, f"modules: {len(found)} {done}", end=True)
    return len(found)
