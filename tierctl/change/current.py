# SPDX-License-Identifier: GPL-2.0
"""Whether the machine agrees with what is chosen, for status, doctor, export and verify."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierctl.core.errors import TierctlError
from tierctl.core.paths import CONF, ETC, KEPT, STATE
from tierctl.core.source import ABSENT, MISSING, Source
from tierctl.model.status import Verified

if TYPE_CHECKING:
    from tierctl.change.plan import Row

MAIN = f"{ETC}/tierctl.toml"


def _configured(source: Source) -> bool:
    """A line of tierctl.toml, a file beside it, or something that tierctl keeps."""
    main = source.get(MAIN)
    if any(one.strip() and not one.lstrip().startswith("#") for one in (main or "").split("\n")):
        return True
    if main is None and source.why(MAIN) != ABSENT:
        return True
    kept = source.get(KEPT) is not None or source.why(KEPT) not in (ABSENT, MISSING)
    found = [source.listing(one) or source.why(one) not in ("", ABSENT) for one in (CONF, STATE)]
    return kept or any(found)


def compared(source: Source) -> tuple[str | None, list[Row]]:
    """The profile that is chosen, and each setting that is wanted beside its value now."""
    from tierctl.change import config, journal, plan  # noqa: PLC0415 - `status` seldom needs them

    found = config.config(source)
    wants = config.wants(source, found, found.profile)
    return found.profile, plan.plan(source, wants, journal.load(source), kept=True)


def verdict(profile: str | None, rows: list[Row]) -> Verified:
    """Whether rows agree; None if this kernel has none of the settings."""
    differing = [row for row in rows if row.differs]
    known = bool(differing) or any(row.status == "same" for row in rows)
    return Verified(profile, not differing if known else None, len(differing))


def current(source: Source) -> Verified:
    """The profile now."""
    for path in (MAIN, CONF, STATE):
        if source.get(path) is None and source.why(path) == MISSING:
            return Verified(error=MISSING)
    if not _configured(source):
        return Verified(differs=0)
    try:
        return verdict(*compared(source))
    except TierctlError as error:
        return Verified(error=str(error))
