# SPDX-License-Identifier: GPL-2.0
"""Which results still are of the code as it is?

A line of the ledger has the keys of the code that its study depends on (study.groups).  It is
current if the kernel of today has the same.  So a changed comment, or another room, makes
nothing stale.  Lines without such keys are compared by the whole kernel's key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import build, cache
from lab.results import ledger
from lab.results.study import Study

CURRENT, STALE, DIRTY, MISSING = "current", "stale", "dirty", "missing"

# The kernels that the committed pages compare the ledger with, so that the pages can be
# written and tested without a composed kernel tree.  `make report` renews the file.
KERNELS = cache.PROJECT / "results" / "kernels.json"


@dataclass(frozen=True)
class State:
    """Of a study: current, stale (since when, and why), or missing."""

    word: str
    why: str = ""
    date: str = ""

    @property
    def text(self) -> str:
        return f"{self.word} since {self.date[:10]}: {self.why}" if self.why else self.word


@dataclass(frozen=True)
class Kernel:
    """A kernel of today: its key, and the keys of its code if it has been built."""

    key: str
    text: Mapping[str, str]


def today(flavour: str) -> Kernel:
    """The kernel that would be built now."""
    key = build.key_of(flavour)
    path = cache.sub("kernels") / f"{flavour}-{key}" / "text.json"
    text = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return Kernel(key, text)


def state(study: Study, lines: Sequence[ledger.Line], kernel: Kernel | None) -> State:
    """Of a study's lines; ``kernel`` is that of today, None for studies without kernels."""
    if not lines:
        return State(MISSING)
    date = max(line.date for line in lines)
    if any(line.dirty for line in lines):
        return State(STALE, "measured with changes that are in no commit", date)
    ours = [line for line in lines if line.kernel.split(" ")[0] == study.flavour]
    if kernel is None or not ours:
        return State(CURRENT, date=date)
    if all(line.kernel.split(" ")[1] == kernel.key for line in ours):
        return State(CURRENT, date=date)
    if not all(line.text for line in ours):
        return State(STALE, "of another kernel", date)
    if not kernel.text:
        return State(STALE, "of another kernel; today's is not built", date)
    changed = sorted(
        {
            group
            for line in ours
            for group, key in line.text.items()
            if kernel.text.get(group) != key
        }
    )
    return State(STALE, ", ".join(changed), date) if changed else State(CURRENT, date=date)


def kernels_of_today(studies: Sequence[Study]) -> dict[str, Kernel]:
    """By flavour, for the studies that depend on kernels."""
    return {flavour: today(flavour) for flavour in {one.flavour for one in studies if one.groups}}


def recorded(path: Path = KERNELS) -> dict[str, Kernel]:
    """The kernels of the last `make report`, by flavour."""
    data = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {flavour: Kernel(**one) for flavour, one in data.get("kernels", {}).items()}


def record(
    kernels: Mapping[str, Kernel],
    studies: Sequence[Study],
    lines: Sequence[ledger.Line],
    path: Path = KERNELS,
) -> dict[str, Kernel]:
    """Write the kernels.

    The code keys of a kernel come from its build, from the file, or from the ledger's lines of
    that kernel.  A machine without the build keeps the keys that the file has for the same kernel.
    """
    wanted = {
        flavour: sorted({g for one in studies if one.flavour == flavour for g in one.groups})
        for flavour in kernels
    }
    before, found = recorded(path), {}
    for flavour, kernel in sorted(kernels.items()):
        text: dict[str, str] = {}
        for line in lines:
            if line.kernel == f"{flavour} {kernel.key}":
                text |= line.text
        if flavour in before and before[flavour].key == kernel.key:
            text |= before[flavour].text
        text |= kernel.text
        found[flavour] = Kernel(
            kernel.key, {group: text[group] for group in wanted[flavour] if group in text}
        )
    data = {
        "SPDX-License-Identifier": "GPL-2.0",
        "kernels": {name: {"key": one.key, "text": one.text} for name, one in found.items()},
    }
    text_of = json.dumps(data, separators=(",", ":"))
    path.write_text(text_of + "\n", encoding="utf-8")
    return found


def marks(
    studies: Sequence[Study], lines: Sequence[ledger.Line], kernels: Mapping[str, Kernel]
) -> dict[str, str]:
    """A word for each study: current, stale, dirty or missing."""
    dirty = {line.study for line in lines if line.dirty}
    found = states(studies, lines, kernels)
    return {name: DIRTY if name in dirty else one.word for name, one in found.items()}


def states(
    studies: Sequence[Study],
    lines: Sequence[ledger.Line],
    kernels: Mapping[str, Kernel] | None = None,
) -> dict[str, State]:
    """Of every study, by name; compared with today's kernels unless others are given."""
    if kernels is None:
        kernels = kernels_of_today(studies)
    return {
        one.name: state(
            one,
            [line for line in lines if line.study == one.name],
            kernels.get(one.flavour, Kernel("", {})) if one.groups else None,
        )
        for one in studies
    }


def table(studies: Sequence[Study], lines: Sequence[ledger.Line]) -> list[list[str]]:
    """Header and a row for each study: its state, and what measures it again."""
    found = states(studies, lines)
    rows = [["study", "state", "minutes", "to measure it"]]
    for one in studies:
        rows.append([one.name, found[one.name].text, f"{one.minutes:.0f}", one.command])
    return rows
