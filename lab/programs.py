# SPDX-License-Identifier: GPL-2.0
"""Compile the lab's C programs into the cache: guest programs and QEMU plugins.

A result's directory is named after everything that went into it (source,
headers, flags, compiler), so it is never stale and nothing is built twice.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from lab import cache, run

WORKLOADS = Path(__file__).parent / "workloads"

COMMON_FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-std=gnu11")
# Static: the guest must not depend on what is loaded from the host's root, and
# a program without a dynamic loader makes no accesses but its own.
GUEST_FLAGS = (*COMMON_FLAGS, "-static")
GUEST_LIBS = ("-lpthread", "-lm")
COMPILER = "gcc"


@functools.cache
def _compiler_version() -> str:
    return run.output([COMPILER, "--version"], todo="run `./bootstrap.sh`").splitlines()[0]


def compile_c(
    source: Path,
    output_name: str,
    flags: Sequence[str],
    *,
    cache_dir: Path,
    libs: Sequence[str] = (),
    headers: Iterable[Path] = (),
) -> Path:
    """Compile one source file, unless the cache has the result already.

    ``headers`` are the files that it may include, besides those of the system.
    """
    parts: list[str | bytes] = [_compiler_version(), *flags, "libs", *libs, output_name]
    for path in (source, *sorted(headers)):
        parts += [path.name, path.read_bytes()]
    directory = cache_dir / f"{source.stem}-{cache.key(parts)}"
    result = directory / output_name
    if result.exists():
        return result
    directory.mkdir(parents=True, exist_ok=True)
    # Appears in one step: an interrupted or a concurrent build leaves no torso.
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        made = Path(scratch) / output_name
        run.output(
            [COMPILER, *flags, source, "-o", made, *libs],
            todo="fix the source, or install what it includes",
        )
        os.replace(made, result)
    return result


def build_guest_program(source: Path, cache_dir: Path, libs: Sequence[str] = GUEST_LIBS) -> Path:
    """A static guest program from one C file, with the headers next to it."""
    return compile_c(
        source,
        source.stem,
        GUEST_FLAGS,
        cache_dir=cache_dir,
        libs=libs,
        headers=source.parent.glob("*.h"),
    )


def build_programs(cache_dir: Path) -> dict[str, Path]:
    """Every program of lab/workloads, by name."""
    return {
        source.stem: build_guest_program(source, cache_dir)
        for source in sorted(WORKLOADS.glob("*.c"))
    }
