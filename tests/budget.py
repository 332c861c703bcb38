# SPDX-License-Identifier: GPL-2.0
"""How long tests may take.  All numbers are here; conftest.py measures and tells.

Above its limit a part gives a warning at the end of the run.  At OVERRUN times the limit it is an
error, but only if the tests themselves have used as much of the CPUs as the limit allows to all
of them: a loaded machine makes seconds longer, and CPU seconds it does not.  Where the whole run
is above its limit, the machine is taken to be slow by as much: a part has that much more before
it is an error, and the whole run has not.  Only parts that were run whole are judged, so that -k
or a single file never is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

WARM_S = 15 * 60  # tests/unit and tests/boot, kernels built
COLD_S = 42 * 60  # the same with nothing built
UNIT_S = 90
ROOM_S = 60  # tests of a room's own, kernels built
# What a room has to itself; the others share boot/test_selftests.py.  Without a limit it is ROOM_S.
ROOMS = {
    "migrc": ("boot/test_migrc_torture.py",),
    "migrate-batch": ("boot/test_migrate_batch.py",),
    "zap-batch": ("boot/test_zap_selftest.py",),
    "kvm-aging": ("boot/test_kvm_aging.py",),
}
# migrc breaks each of its rules and looks whether a program notices; the others boot the debug
# kernel as well, which takes up to a minute, and guests of the guest are emulated twice.
ROOM_LIMITS = {"migrc": 240, "migrate-batch": 120, "kvm-aging": 120}
TIERS = ("unit", "boot")  # what `make test` runs
OVERRUN = 2.0


@dataclass
class Spent:
    """Seconds of some tests, and of these on a CPU."""

    seconds: float = 0.0
    cpu_s: float = 0.0


@dataclass(frozen=True)
class Session:
    """A run of tests that has passed; files by their path below tests/."""

    files: Mapping[str, Spent]
    seconds: float
    tiers: Collection[str]  # that were run whole
    warm: bool
    workers: int
    cpus: int

    def spent(self, names: Iterable[str]) -> Spent:
        """Of some files: what they add to the run, and the CPU time of them."""
        found = [self.files[name] for name in names if name in self.files]
        seconds = sum(one.seconds for one in found) / self.workers
        return Spent(seconds, sum(one.cpu_s for one in found))


@dataclass(frozen=True)
class Overrun:
    """A part that took longer than it may."""

    part: str
    spent: Spent
    limit: float
    error: bool

    def __str__(self) -> str:
        return (
            f"{'error' if self.error else 'warning'}: {self.part} took {self.spent.seconds:.0f} s "
            f"({self.spent.cpu_s:.0f} s of CPU), the budget is {self.limit:.0f} s"
        )


ADVICE = (
    "move what is long to tests/long or make it quicker; seconds by file are in tests.json of the "
    "cache, the budget is in tests/budget.py"
)


def whole(args: Iterable[str], tests: Path, base: Path, *, narrowed: bool) -> list[str]:
    """The tiers of which every test was asked for.

    ``args`` are pytest's, relative to ``base``.  ``narrowed`` says that an option leaves some out.
    """
    given = {(base / arg).resolve() for arg in args}
    return [
        tier
        for tier in TIERS
        if not narrowed and any(path in given for path in (tests / tier, tests, *tests.parents))
    ]


def judge(session: Session) -> list[Overrun]:
    """Every part that was run whole and took too long."""
    names = session.files
    pace = max(1.0, session.seconds / (WARM_S if session.warm else COLD_S))
    parts: list[tuple[str, Spent, float, float]] = []  # what, of what, limit, times it for an error
    if "unit" in session.tiers:
        mine = session.spent(name for name in names if name.startswith("unit/"))
        parts.append(("tests/unit", mine, UNIT_S, OVERRUN * pace))
    if set(TIERS) <= set(session.tiers):
        every = Spent(session.seconds, session.spent(names).cpu_s)
        kind = "kernels built" if session.warm else "from nothing"
        limit = WARM_S if session.warm else COLD_S
        parts.append((f"tests/unit and tests/boot, {kind},", every, limit, OVERRUN))
        if session.warm:
            parts += [
                (
                    f"room {room}",
                    session.spent(files),
                    ROOM_LIMITS.get(room, ROOM_S),
                    OVERRUN * pace,
                )
                for room, files in ROOMS.items()
            ]
    return [
        Overrun(
            part,
            spent,
            limit,
            error=spent.seconds > times * limit and spent.cpu_s > limit * session.cpus,
        )
        for part, spent, limit, times in parts
        if spent.seconds > limit
    ]
