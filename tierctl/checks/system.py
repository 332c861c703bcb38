# SPDX-License-Identifier: GPL-2.0
"""Checks of `tierctl doctor`: groups, guests, the kernel, other programs' files, the profile."""

from __future__ import annotations

import re

from tierctl.change.current import current
from tierctl.checks.check import INFO, WARNING, Check, Found, NotDone, need
from tierctl.core.parse import as_ranges, number, ranges
from tierctl.core.paths import CGROUP, LIMIT
from tierctl.core.source import ABSENT
from tierctl.core.texts import advice
from tierctl.explain.obstacles import GENERAL
from tierctl.model.snapshot import Snapshot

SHOWN = 3  # names in a sentence
TAINTED = "/proc/sys/kernel/tainted"
LOCKDOWN = "/sys/kernel/security/lockdown"
# Documentation/admin-guide/tainted-kernels.rst; a taint that says something about tiering's kernel
TAINTS = {
    1: "a module was forced to load",
    7: "an oops has happened",
    9: "a warning has happened",
    14: "a lockup has happened",
}
EXPORTER = "/etc/default/prometheus-node-exporter"
FIELDS = re.compile(r"--collector\.vmstat\.fields[= ]\s*(\S+)")


def _names(found: list[str]) -> str:
    rest = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + rest


def _groups(now: Snapshot) -> list[str]:
    from tierctl.read import groups  # noqa: PLC0415 - `status` does without its import

    paths = groups.every(now.source)
    need(paths, "there is no cgroup v2 with a memory controller at /sys/fs/cgroup")
    return paths or []


def limit_zero(now: Snapshot) -> Found:
    if not now.mechanisms.part("promote"):
        return
    found = [one for one in _groups(now) if now.source.get(f"{CGROUP}{one}/{LIMIT}") == "0"]
    if found:
        from shlex import quote  # noqa: PLC0415 - names of libvirt have backslashes

        yield (
            INFO,
            f"memory.tier.max is 0, so no page is promoted, for {_names(found)}.",
            f"If this is not meant:\ntierctl group set {quote(found[0][1:])} max=max",
        )


def cpuset_slow(now: Snapshot) -> Found:
    now.need_tiers()
    slow = set(now.slow)
    if not slow:
        return
    found = []
    for path in _groups(now):
        allowed = ranges(now.source.get(f"{CGROUP}{path}/cpuset.mems.effective"))
        if allowed and set(allowed) <= slow:
            found.append(path)
    if found:
        yield (
            INFO,
            f"cpuset.mems allows slow nodes {as_ranges(slow)} only, for {_names(found)}.",
            "Write fast nodes to cpuset.mems, if this is not meant.",
        )


def guests_without_age(now: Snapshot) -> Found:
    from tierctl.read import groups  # noqa: PLC0415

    part = now.mechanisms.part("age")
    if part is None or part.state == "on":
        return
    guests = [one for one in _groups(now) if groups.GUEST.search(one)]
    if not guests:
        return
    todo = GENERAL
    if now.mechanisms.enabled:
        todo = advice(part.reason) if part.enabled else "tierctl set age.enabled 1"
    yield (
        INFO,
        f"Virtual machines run ({len(guests)}), and the part age is {part.state or 'unknown'}: "
        "looks at their memory ask KVM about each page.",
        todo,
    )


def older_kernel(now: Snapshot) -> Found:
    from tierctl.change.settings import known  # noqa: PLC0415 - `status` does not need it

    lacking = [
        key
        for key, one in known().items()
        if now.mechanisms.part(one.part)
        and now.source.get(one.file) is None
        and now.source.why(one.file) == ABSENT
    ]
    if lacking:
        yield (
            INFO,
            f"The kernel is older than this tierctl: it lacks {', '.join(lacking)}.",
            "Nothing: profiles leave these settings out.",
        )


def taint(now: Snapshot) -> Found:
    value = number(now.source.get(TAINTED))
    need(value, f"{TAINTED} cannot be read")
    found = [what for bit, what in TAINTS.items() if (value or 0) >> bit & 1]
    if found:
        yield INFO, f"The kernel is tainted: {'; '.join(found)}.", "dmesg"


def lockdown(now: Snapshot) -> Found:
    text = now.source.get(LOCKDOWN)
    if now.source.why(LOCKDOWN) not in ("", ABSENT):
        raise NotDone(f"{LOCKDOWN} cannot be read; run as root")
    if text is not None and "[none]" not in text:
        yield (
            INFO,
            "Lockdown is on (Secure Boot): debugfs lru_gen is refused.",
            "Nothing: tierctl reads lru_gen_full, which takes longer.",
        )


def exporter_filter(now: Snapshot) -> Found:
    text = now.source.get(EXPORTER)
    if text is None:
        if now.source.why(EXPORTER) != ABSENT:
            raise NotDone(f"{EXPORTER}: {now.source.why(EXPORTER)}")
        return
    found = FIELDS.search("\n".join(one for one in text.split("\n") if one[:1] != "#"))
    try:
        kept = bool(found and re.search(found[1].strip("\"'\\"), "pgpromote_success"))
    except re.error as error:
        raise NotDone(f"the pattern in {EXPORTER} is not understood: {error}") from None
    if not kept:
        yield (
            INFO,
            "node_exporter drops the counters of promotion (pgpromote_*, pgdemote_*, tier_*).",
            "Add --collector.vmstat.fields='^(oom_kill|pgpg|pswp|pg.*fault|pgpromote|pgdemote|"
            f"tier_).*' to ARGS in {EXPORTER}.",
        )


def profile_differs(now: Snapshot) -> Found:
    found = current(now.source)
    if found.error:
        raise NotDone(found.error)
    if found.verified is False:
        number_of = found.differs
        yield (
            WARNING,
            f"{number_of} setting{'s differ' if number_of != 1 else ' differs'} from what is "
            f"chosen (profile {found.profile or '-'}).",
            "tierctl profile verify\ntierctl profile apply",
        )


CHECKS = [
    Check("limit-zero", limit_zero),
    Check("cpuset-slow", cpuset_slow),
    Check("guests-without-age", guests_without_age),
    Check("kernel-differs", older_kernel),
    Check("taint", taint),
    Check("lockdown", lockdown),
    Check("exporter-filter", exporter_filter),
    Check("profile-differs", profile_differs, True),
]
