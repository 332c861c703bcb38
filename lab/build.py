# SPDX-License-Identifier: GPL-2.0
"""Kernels by content: nothing is built twice, nothing stale is used.

A finished kernel lives in kernels/<key>, where the key covers all that goes
in: the source as git trees, the fragments, the compiler, this recipe.  What no
image contains (documentation, selftests) does not count.  The work itself
happens in src/ and obj/, which stay: kbuild then continues an interrupted
build and recompiles only what an edit touches.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TextIO

from lab import cache, kconfig, progress, run, source, textkeys, tree
from lab.errors import LabError

RECIPE = "1"  # change it when a build would come out otherwise from the same input
# Seconds on 2 cores, until measured
GUESS = {"base": 420, "tiershift": 420, "torture": 420, "debug": 700}
WHOLE = 1200  # output lines; fewer mean the rest of a build, or an edit
KILLED_S = 120  # what a build has in hand when it is killed is not older
ARTIFACTS = {"arch/x86/boot/bzImage": "bzImage", "System.map": "System.map", ".config": "config"}


@dataclass(frozen=True)
class KernelImage:
    """A bootable kernel and what it was made of."""

    flavour: str
    key: str
    release: str
    base_version: str
    source_tree: str
    directory: Path

    @property
    def image(self) -> Path:
        return self.directory / "bzImage"

    @property
    def system_map(self) -> Path:
        return self.directory / "System.map"

    def describe(self) -> dict[str, str]:
        """For results: everything but where it lies."""
        return {name: value for name, value in asdict(self).items() if name != "directory"}


def _compiler() -> str:
    return (
        run.output(["gcc", "--version"]).partition("\n")[0]
        + run.output(["ld", "--version"]).partition("\n")[0]
    )


def commit_of(flavour: str, version: str) -> str:
    """The commit that a flavour is built from."""
    return tree.base_commit(version) if flavour == "base" else tree.compose(version)


def _what_is_built(commit: str) -> list[str]:
    """The source as git's object names, without what is in no kernel image."""
    top = tree.git("ls-tree", commit).splitlines()
    tools = tree.git("ls-tree", commit, "tools/").splitlines()
    left_out = ("Documentation", "MAINTAINERS", "tools", "tools/testing")
    return [line for line in top + tools if line.partition("\t")[2] not in left_out]


def inputs(commit: str) -> list[str]:
    """What every build depends on, besides its configuration."""
    return [*_what_is_built(commit), _compiler()]


def key_of(flavour: str, version: str | None = None) -> str:
    """The content key of the kernel of a flavour; nothing is built."""
    parts = kconfig.fragments(flavour).values()
    commit = commit_of(flavour, version or source.newest())
    return cache.key([RECIPE, flavour, *inputs(commit), *parts])


def missing(flavours: Iterable[str]) -> dict[str, float]:
    """Flavours that would have to be built, and for how many seconds, at most."""
    return {
        flavour: float(GUESS[flavour])
        for flavour in dict.fromkeys(flavours)
        if not (cache.sub("kernels") / f"{flavour}-{key_of(flavour)}" / "kernel.json").exists()
    }


def kernel(flavour: str, version: str | None = None, log: TextIO = sys.stderr) -> KernelImage:
    """The kernel of a flavour, built now if the cache does not hold it."""
    kconfig.fragments(flavour)  # an unknown one is told before anything is done
    version = version or source.newest()
    commit = commit_of(flavour, version)
    source_tree = tree.git("rev-parse", f"{commit}^{{tree}}")
    key = key_of(flavour, version)
    directory = cache.sub("kernels") / f"{flavour}-{key}"
    if not (directory / "kernel.json").exists():
        with cache.lock("build"):
            if not (directory / "kernel.json").exists():
                _build(flavour, version, commit, source_tree, directory, key, log)
    data = json.loads((directory / "kernel.json").read_text(encoding="utf-8"))
    # Selftests are taken from the source as it is now, which may differ in what was left out.
    return KernelImage(**{**data, "source_tree": source_tree}, directory=directory)


def _build(
    flavour: str,
    version: str,
    commit: str,
    source_tree: str,
    directory: Path,
    key: str,
    log: TextIO,
) -> None:
    cache.need_space(6, f"building kernel {flavour}")
    src = source_directory(commit)
    obj = object_directory(flavour, src)
    make(flavour, src, obj, log, release=f"-{flavour}", guess=(GUESS[flavour], 0))
    partial = directory.with_name(directory.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for made, name in ARTIFACTS.items():
        shutil.copy(obj / made, partial / name)
    release = (obj / "include/config/kernel.release").read_text(encoding="utf-8").strip()
    facts = {
        "flavour": flavour,
        "key": key,
        "release": release,
        "base_version": version,
        "source_tree": source_tree,
    }
    (partial / "kernel.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    text = json.dumps(textkeys.keys(obj), indent=1)
    (partial / "text.json").write_text(text + "\n", encoding="utf-8")
    shutil.rmtree(directory, ignore_errors=True)
    partial.rename(directory)


def object_directory(flavour: str, src: Path) -> Path:
    """kbuild's output directory of a flavour, configured.

    base and tiershift share one, as they share the source directory: building
    one after the other then compiles only what the rooms touch.
    """
    obj = cache.sub("obj") / ("debug" if flavour == "debug" else "bench")
    kconfig.configure(src, obj, flavour)
    return obj


def source_directory(commit: str) -> Path:
    """The one work tree for builds; only files that differ get a new time stamp."""
    path = cache.sub("src") / "kernel"
    with cache.lock("src"):
        tree.work_tree(path, commit)
    return path


def make(
    name: str,
    src: Path,
    obj: Path,
    log: TextIO,
    *,
    release: str,
    targets: Sequence[str] = ("bzImage",),
    guess: tuple[int, int] = (600, 0),
    env: Mapping[str, str] | None = None,
) -> None:
    """kbuild with a progress line; its whole output is kept beside the objects.

    ``release`` is what is added to the kernel's version.  ``guess`` has the seconds and output
    lines of a whole build, until one has been measured here.
    """
    jobs = os.cpu_count() or 2
    argv = ["make", "-C", str(src), f"O={obj}", f"-j{jobs + 1}", f"LOCALVERSION={release}"]
    argv += targets
    fixed = {
        # So that the same source gives the same kernel.
        "KBUILD_BUILD_TIMESTAMP": "2026-01-01 00:00:00 UTC",
        "KBUILD_BUILD_USER": "tiershift",
        "KBUILD_BUILD_HOST": "lab",
        "KBUILD_BUILD_VERSION": "1",
        "LC_ALL": "C",
    }
    past = obj / "build.json"  # how long a whole build took here
    if past.exists():
        data = json.loads(past.read_text(encoding="utf-8"))
        guess = (int(data["seconds"]), int(data["steps"]))
    log_path = obj / "build.log"
    running = obj / "build.running"
    if running.exists():
        _forget_last_objects(obj)
    running.touch()
    start = time.monotonic()
    with (
        open(log_path, "w", encoding="utf-8") as out,
        subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            env=dict(os.environ, **fixed, **(env or {})),
        ) as process,
    ):
        assert process.stdout
        done = _watch(name, process.stdout, out, log, *guess)
        code = process.wait()
    running.unlink()
    seconds = time.monotonic() - start
    if code:
        bad = _first_errors(log_path.read_text(encoding="utf-8", errors="replace").splitlines())
        raise LabError(f"building kernel {name} failed:\n{bad}", f"the whole log is {log_path}")
    if done > WHOLE:
        past.write_text(json.dumps({"seconds": seconds, "steps": done}), encoding="utf-8")
    progress.say(log, f"[{name}] built in {progress.minutes(seconds)}", end=True)


def _forget_last_objects(obj: Path) -> None:
    """After a build that was killed: what it was compiling is compiled again.

    kbuild adds the checksums of exported symbols to the file of an object's command when that and
    the object are complete, and does not know that some are missing.
    """
    written = {path: path.stat().st_mtime for path in obj.rglob(".*.o.cmd")}
    last = max(written.values(), default=0.0)
    for path, when in written.items():
        if when > last - KILLED_S:
            path.unlink()


def _first_errors(lines: list[str]) -> str:
    hits = [i for i, line in enumerate(lines) if re.search(r"\berror\b|\*\*\*", line, re.I)]
    first = hits[0] if hits else len(lines)
    return "\n".join("    " + line for line in lines[max(0, first - 5) : first + 10])


def _watch(name: str, pipe: IO[str], out: TextIO, log: TextIO, expected: int, steps: int) -> int:
    start = time.monotonic()
    done = 0
    for line in pipe:
        out.write(line)
        done += 1
        share = f"{min(99, 100 * done // steps)} %, " if steps else ""
        passed, whole = (progress.minutes(s) for s in (time.monotonic() - start, expected))
        text = f"[{name}] building: {share}{done} steps, {passed} of about {whole}"
        progress.say(log, text, every_s=20)
    return done


def kernels(flavours: Iterable[str], log: TextIO = sys.stderr) -> list[KernelImage]:
    """Several kernels, one after the other (each uses all cores)."""
    return [kernel(flavour, log=log) for flavour in flavours]
