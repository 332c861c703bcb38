# SPDX-License-Identifier: GPL-2.0
"""Kernel configurations: tinyconfig plus fragments, checked after the fact.

linux/configs has what belongs to no room; what rooms need is in their manifests
(lab/manifest.py).  ``make olddefconfig`` silently drops an option whose dependencies are not
met.  Every line of every fragment must therefore be found in the result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import cache, manifest, run
from lab.errors import LabError
from lab.rooms import Room

CONFIGS = cache.PROJECT / "linux" / "configs"
ROOMS = "rooms"  # the fragment that is made of manifests


@dataclass(frozen=True)
class Flavour:
    """Fragments of linux/configs, and keys of the manifests of the rooms."""

    files: tuple[str, ...]
    keys: tuple[str, ...] = ()


FLAVOURS = {
    "base": Flavour(("common", "bench")),
    "tiershift": Flavour(("common", "bench"), ("kconfig",)),
    "torture": Flavour(("common", "bench"), ("kconfig", "kconfig_torture")),
    "debug": Flavour(("common", "debug"), ("kconfig", "kconfig_torture", "kconfig_debug")),
}


def fragments(flavour: str, chosen: Sequence[Room] | None = None) -> dict[str, str]:
    """The fragments of a flavour by name, in the order in which they are merged.

    ``chosen`` are the rooms that are composed, all of linux/series by default.
    """
    if flavour not in FLAVOURS:
        raise LabError(f"no kernel flavour {flavour!r}", "there are: " + ", ".join(FLAVOURS))
    kind = FLAVOURS[flavour]
    texts = {name: (CONFIGS / f"{name}.config").read_text("utf-8") for name in kind.files}
    if kind.keys:
        found = manifest.options(kind.keys, chosen)
        texts[ROOMS] = "".join(f"{name}={value}\n" for name, value in found.items())
    return texts


def options(text: str) -> dict[str, str]:
    """CONFIG_X=value lines; `# CONFIG_X is not set` counts as n."""
    found = dict(re.findall(r"^(CONFIG_\w+)=(.*)$", text, flags=re.MULTILINE))
    for name in re.findall(r"^# (CONFIG_\w+) is not set$", text, flags=re.MULTILINE):
        found[name] = "n"
    return found


def configure(src: Path, obj: Path, flavour: str, chosen: Sequence[Room] | None = None) -> None:
    """Write obj/.config; kbuild then recompiles only what a changed option touches."""
    texts = fragments(flavour, chosen)
    merge(src, obj, texts)
    _check(obj / ".config", flavour, texts)


def merge(src: Path, obj: Path, texts: Mapping[str, str], start: str = "") -> None:
    """Write obj/.config: tinyconfig, or ``start``, and fragments on top of it."""
    obj.mkdir(parents=True, exist_ok=True)
    files = [obj / f"{name}.config" for name in texts]
    for path, text in zip(files, texts.values(), strict=True):
        path.write_text(text, encoding="utf-8")
    config = obj / ".config"
    make: list[str | Path] = ["make", "-s", "-C", src, f"O={obj}"]
    todo = "run it by hand to see more, or delete that directory"
    if start:
        config.write_text(start, encoding="utf-8")
    else:
        run.output([*make, "tinyconfig"], todo=todo)
    script: list[str | Path] = [src / "scripts/kconfig/merge_config.sh", "-m", "-O", obj, config]
    run.output(["sh", *script, *files], cwd=src, todo=todo)
    run.output([*make, "olddefconfig"], todo=todo)


def _check(config: Path, flavour: str, texts: Mapping[str, str]) -> None:
    wanted: dict[str, str] = {}
    for text in texts.values():
        wanted |= options(text)
    have = options(config.read_text(encoding="utf-8"))
    wrong = [
        f"    {name}: the fragment says {value}, the result {have.get(name, 'n')}"
        for name, value in sorted(wanted.items())
        if have.get(name, "n") != value
    ]
    if wrong:
        raise LabError(
            f"the configuration of flavour {flavour} is not what its fragments say:\n"
            + "\n".join(wrong),
            f"add what the option depends on to the fragment ({ROOMS}: to {manifest.NAME})",
        )
