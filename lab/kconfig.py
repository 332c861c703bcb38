# SPDX-License-Identifier: GPL-2.0
"""Kernel configurations: tinyconfig plus fragments, checked after the fact.

``make olddefconfig`` silently drops an option whose dependencies are not
met.  Every line of every fragment must therefore be found in the result.
"""

from __future__ import annotations

import re
from pathlib import Path

from lab import cache, run
from lab.errors import LabError

CONFIGS = cache.PROJECT / "linux" / "configs"
# Which fragments make which flavour.
FLAVOURS = {
    "base": ("common", "bench"),
    "tiershift": ("common", "bench", "tiershift"),
    "torture": ("common", "bench", "tiershift", "torture"),
    "debug": ("common", "debug", "tiershift", "tiershift-debug"),
}


def fragments(flavour: str) -> list[Path]:
    """The fragment files of a flavour, in the order in which they are merged."""
    if flavour not in FLAVOURS:
        raise LabError(f"no kernel flavour {flavour!r}", "there are: " + ", ".join(FLAVOURS))
    return [CONFIGS / f"{name}.config" for name in FLAVOURS[flavour]]


def options(text: str) -> dict[str, str]:
    """CONFIG_X=value lines; `# CONFIG_X is not set` counts as n."""
    found = dict(re.findall(r"^(CONFIG_\w+)=(.*)$", text, flags=re.MULTILINE))
    for name in re.findall(r"^# (CONFIG_\w+) is not set$", text, flags=re.MULTILINE):
        found[name] = "n"
    return found


def configure(src: Path, obj: Path, flavour: str) -> None:
    """Write obj/.config; kbuild then recompiles only what a changed option touches."""
    obj.mkdir(parents=True, exist_ok=True)
    config = obj / ".config"
    make: list[str | Path] = ["make", "-s", "-C", src, f"O={obj}"]
    todo = "run it by hand to see more, or delete that directory"
    run.output([*make, "tinyconfig"], todo=todo)
    merge: list[str | Path] = [src / "scripts/kconfig/merge_config.sh", "-m", "-O", obj, config]
    run.output(["sh", *merge, *fragments(flavour)], cwd=src, todo=todo)
    run.output([*make, "olddefconfig"], todo=todo)
    _check(config, flavour)


def _check(config: Path, flavour: str) -> None:
    wanted: dict[str, str] = {}
    for path in fragments(flavour):
        wanted |= options(path.read_text(encoding="utf-8"))
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
            "add what the option depends on to the fragment",
        )
