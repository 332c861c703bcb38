# SPDX-License-Identifier: GPL-2.0
"""Every study that there is."""

from __future__ import annotations

from collections.abc import Iterator

from lab import (
    aging,
    compare,
    curves,
    flush,
    migrate,
    models,
    off,
    policycost,
    readcost,
    refault,
    repeats,
    shares,
    soak,
    thp,
    together,
    zap,
)
from lab.errors import LabError
from lab.results.study import Study


def every() -> Iterator[Study]:
    """In the order in which reports show them."""
    yield from repeats.studies()
    yield from compare.studies()
    yield curves.STUDY
    yield from refault.studies()
    yield thp.STUDY
    yield shares.STUDY
    yield policycost.STUDY
    yield readcost.STUDY
    yield zap.STUDY
    yield flush.STUDY
    yield migrate.STUDY
    yield aging.STUDY
    yield off.STUDY
    yield together.STUDY
    for module in (soak, models):
        yield from module.STUDIES


def named(name: str) -> Study:
    """A study by its name."""
    known = {study.name: study for study in every()}
    if name not in known:
        raise LabError(f"there is no study {name!r}", "there are: " + ", ".join(known))
    return known[name]
