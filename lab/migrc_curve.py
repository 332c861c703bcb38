# SPDX-License-Identifier: GPL-2.0
"""MIGRC: how many flushes are saved for how much memory held, and for how long.

The scenario lookup runs under NUMA balancing, on fast nodes of several sizes; while it runs
the limits of MIGRC are changed (lab/steps.py), so that each size is one boot.  A point is
what the counters grew by while so many pages were migrated under one pair of limits; the
first and the last step are with MIGRC off.  Defaults are to be chosen from this.

What is free of the fast node above its high watermark is the same for each size: the rest is
taken by huge pages that are reserved before the job starts and that nobody uses.  The job,
and with it the pressure, is then the same, and what differs is what depends on the size of
the node: its watermarks, between which kswapd works.  (With the same free in all, a node of
8 GiB had hardly a page above its watermarks: kswapd found nothing to demote and gave up,
without MIGRC as well.)

Ages are in the guest's time.  Under emulation a page takes some fifty times as long to
migrate as on hardware, so as many pages are held for an age as on hardware for a fiftieth.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TextIO

from lab import build, cache, flushes, kept, migrc, scenario
from lab.errors import LabError
from lab.results import finish, ledger, study
from lab.results.study import Column, Study
from lab.scenario import Contender, Scenario

NAME = "migrc-curve"
SIZES = (512, 1024, 2048, 4096, 8192)
MAX_PAGES = (32, 128, 512, 1024, 4096)
MAX_AGES_MS = (10, 100, 1000)
ENOUGH = 0.95  # of the best saving
SOME = 0.05  # less than that is noise
NEAR = 1.2  # of the least flushes that are left: what the defaults may leave

VCPUS = 4
SWEEP_OPS = 1_000_000
ROOM_MB = 64  # free of the fast node, above its watermarks, when the job starts
SHORT = 4  # huge pages that may be missing of the reserve
SETTLE_PAGES, PAGES = 6000, 36000  # migrated, before and in a step
WARM_PAGES = 2 * ROOM_MB * 256  # until the fast node is full, and for a while
STEP_LIMIT_S, WARM_LIMIT_S = 60, 180
PAGE_KIB = 4

# What the fast node has beyond ROOM_MB
RESERVE = """
set -e
node=/sys/devices/system/node/node0
# What is given up later would be room as well, enough for the whole job: page cache, and what
# watermarks keep for huge pages.
echo never > /sys/kernel/mm/transparent_hugepage/enabled
sync
echo 3 > /proc/sys/vm/drop_caches
free=$(awk '$3 == "MemFree:" { print int($4 / 1024) }' $node/meminfo)
high=$(awk '/^Node/ { here = $2 == "0," } here && $1 == "high" { n += $2 }
	END { print int(n / 256) }' /proc/zoneinfo)
want=$(( (free - high - @ROOM@) / 2 ))
[ $want -gt 0 ] || want=0
pool=$node/hugepages/hugepages-2048kB/nr_hugepages
for try in 1 2 3 4 5 6 7 8; do
	echo $want > $pool
	short=$(( want - $(cat $pool) ))
	[ $short -gt 0 ] || break
	echo 1 > /proc/sys/vm/compact_memory
done
[ $short -le @SHORT@ ] || { echo "$short of $want huge pages are missing"; exit 1; }
# kswapd may have given up meanwhile: it goes on when somebody has reclaimed something.
mount -t cgroup2 none /sys/fs/cgroup 2> /dev/null || [ -e /sys/fs/cgroup/cgroup.procs ]
echo 1M > /sys/fs/cgroup/memory.reclaim || true
"""

Row = dict[str, Any]


# --- what is run ---------------------------------------------------------------


def make_steps(max_pages: Sequence[int], max_ages_ms: Sequence[int]) -> list[dict[str, Any]]:
    """Warming up, off, every pair of limits, and off again."""

    def step(name: str, settings: dict[str, str], **other: int) -> dict[str, Any]:
        return {
            "name": name,
            "settings": [*settings.items()],
            "settle_pages": SETTLE_PAGES,
            "pages": PAGES,
            "limit_s": STEP_LIMIT_S,
            **other,
        }

    off = {flushes.SWITCH: "0"}
    pairs = [(pages, age) for age in max_ages_ms for pages in max_pages]
    return [
        step("warm", off, settle_pages=WARM_PAGES, pages=1, limit_s=WARM_LIMIT_S),
        step("off", off),
        *(
            step(
                f"{pages} {age}",
                {
                    flushes.MIGRC + "max_pages": str(pages),
                    flushes.MIGRC + "max_age_ms": str(age),
                    flushes.SWITCH: "1",
                },
            )
            for pages, age in pairs
        ),
        step("off-again", off),
    ]


def make_scenario(size_mb: int, steps: Sequence[dict[str, Any]]) -> Scenario:
    """The scenario lookup on a fast node of a size, for as long as the steps may take."""
    longest = sum(2 * step["limit_s"] for step in steps) + 60
    spec = migrc.counting(
        migrc.on_cpus(
            scenario.load("lookup"),
            VCPUS,
            *("--ops", "0", "--seconds", str(longest)),
            *("--sweeps", "0", "--sweep-ops", str(SWEEP_OPS)),
        )
    )
    sizes = {**spec.topology.sizes, "fast_mb": size_mb}
    return replace(
        spec,
        topology=replace(spec.topology, sizes=sizes),
        measure=replace(spec.measure, timeout_s=longest + 120, expected_s=240),
    )


def contender(kernel: str = "tiershift") -> Contender:
    # Watermarks are those of the node's size here.
    settings = {**migrc.SMALL, **migrc.QUICK}
    return Contender("numab2", "numab2", kernel, settings=settings, rival=False)


def measure_size(
    size_mb: int, steps: Sequence[dict[str, Any]], kernel: str, title: str, progress: TextIO
) -> Row:
    """One boot: all steps on a fast node of that size."""
    spec = make_scenario(size_mb, steps)
    image = build.kernel(kernel)
    with scenario.Live(progress, title, spec.measure.expected_s, spec.measure.app_cpus) as live:
        found = scenario.run_contender(
            spec,
            contender(kernel),
            image,
            out=cache.sub("runs") / NAME / f"fast-{size_mb}",
            cache=cache.root(),
            external={},
            live=live,
            prepare=RESERVE.replace("@ROOM@", str(ROOM_MB)).replace("@SHORT@", str(SHORT)),
            steps=steps,
        )
    agent = found["agent"]
    row = {
        "size_mb": size_mb,
        "kernel": found["kernel"],
        "date": found["date"],
        "seconds": found["seconds_total"],
        "free_mb": agent["environment"]["nodes"]["node0"]["free_kb"] // 1024,
        "verified": agent["workload"]["verified"],
        "revived": agent.get("revived", 0),
        "steps": agent["steps"],
    }
    if failures := check([row]):
        raise LabError(
            "these figures do not count: " + "; ".join(failures),
            f"they are in {cache.sub('runs') / NAME}; with --resume this size is measured again",
        )
    return row


# --- arithmetic ----------------------------------------------------------------


def points(row: Row) -> list[dict[str, Any]]:
    """What each pair of limits has saved, compared with both steps with MIGRC off."""
    steps = {step["name"]: step for step in row["steps"]}
    deltas = [steps[name]["delta"] for name in ("off", "off-again")]
    base = flushes.of(
        {key: sum(delta.get(key, 0) for delta in deltas) for key in set().union(*deltas)}
    )
    found = []
    for name, step in steps.items():
        if " " not in name:
            continue
        pages, age = (int(word) for word in name.split())
        # A counter that did not move is not in the delta.
        here = flushes.of({flushes.SENT: 0, flushes.RECEIVED: 0, **step["delta"]})
        found.append(
            {
                "max_pages": pages,
                "max_age_ms": age,
                "complete": step["complete"],
                "seconds": step["seconds"],
                "held_mean": step["held_mean"],
                "held_max": step["held_max"],
                **here,
                "scanned_per_demoted": _ratio(here["scanned"], here["demoted"]),
                "saved": flushes.less(here["flushes_per_1000"], base["flushes_per_1000"]),
                "saved_received": flushes.less(
                    here["received_per_1000"], base["received_per_1000"]
                ),
                "left": _ratio(here["flushes_per_1000"], base["flushes_per_1000"]),
                # Of MIGRC alone, whatever else is flushed meanwhile
                "pages_per_flush": _ratio(
                    here["deferred"], (here["drains"] or 0) + sum(here["forced"].values())
                ),
            }
        )
    return found


def _ratio(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base


def off_steps(row: Row) -> dict[str, dict[str, Any]]:
    """The two steps with MIGRC off; by how much they differ is the noise."""
    found = {
        step["name"]: flushes.of({flushes.SENT: 0, flushes.RECEIVED: 0, **step["delta"]})
        for step in row["steps"]
        if step["name"].startswith("off")
    }
    for one in found.values():
        one["scanned_per_demoted"] = _ratio(one["scanned"], one["demoted"])
    return found


def cheapest(found: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Of the pairs that save ENOUGH of what the best does: least pages, then least age."""
    best = max((point["saved"] or 0.0 for point in found), default=0.0)
    good = [point for point in found if best > SOME and (point["saved"] or 0.0) >= ENOUGH * best]
    return min(good, key=lambda point: (point["max_pages"], point["max_age_ms"]), default=None)


def means(rows: Sequence[Row]) -> dict[tuple[int, int], float]:
    """Flushes for 1,000 pages under each pair of limits, the mean of all sizes that have it."""
    each: dict[tuple[int, int], list[float]] = {}
    for row in rows:
        for point in points(row):
            if point["flushes_per_1000"] is not None:
                pair = point["max_pages"], point["max_age_ms"]
                each.setdefault(pair, []).append(point["flushes_per_1000"])
    return {pair: sum(n) / len(n) for pair, n in sorted(each.items()) if len(n) == len(rows)}


def defaults(rows: Sequence[Row]) -> tuple[int, int] | None:
    """Of the pairs that leave hardly more flushes than the best: least pages, then least age.

    Flushes left, because the share that is saved says little where nearly all are.
    """
    found = means(rows)
    least = min(found.values(), default=0.0)
    return min((pair for pair, left in found.items() if left <= NEAR * least), default=None)


def check(rows: Sequence[Row]) -> list[str]:
    """What makes a figure meaningless."""
    failures = []
    for row in rows:
        where = f"fast node of {row['size_mb']} MiB"
        if not row["verified"]:
            failures.append(f"{where}: the job did not verify its data")
        for step in row["steps"]:
            deferred = step["delta"].get(flushes.DEFERRED, 0)
            if not step["complete"]:
                failures.append(
                    f"{where}, {step['name']}: only {step['delta'].get(flushes.MIGRATED, 0)} "
                    "pages were migrated in time"
                )
            if (" " in step["name"]) != bool(deferred) and step["name"] != "warm":
                failures.append(f"{where}, {step['name']}: {deferred} pages were deferred")
    return failures


# --- showing -------------------------------------------------------------------


def table(row: Row) -> list[list[str]]:
    """A line for each pair of limits of one size."""
    lines = [
        [
            f"fast node of {row['size_mb']} MiB",
            *("pages migrated", "deferred", "flushes per 1,000 pages", "less"),
            *("received per 1,000 pages", "less", "deferred pages per flush of theirs"),
            *("not deferred, by reason", "looked at by reclaim per page demoted"),
            *("held, mean", "held, most"),
            *("seconds", "drained, pages by reason", "forced"),
        ]
    ]

    def line(label: str, one: dict[str, Any], **more: str) -> list[str]:
        return [
            label,
            f"{one['migrated']:,}",
            _share(one["deferred_share"]),
            _per(one["flushes_per_1000"]),
            more.get("saved", "-"),
            _per(one["received_per_1000"]),
            more.get("saved_received", "-"),
            more.get("pages_per_flush", "-"),
            _reasons(one["skipped"]),
            _per(one["scanned_per_demoted"]),
            more.get("mean", "-"),
            more.get("most", "-"),
            more.get("seconds", "-"),
            _reasons(one["drained"]),
            _reasons(one["forced"]),
        ]

    for name, off in off_steps(row).items():
        lines.append(line(name, off))
    for point in points(row):
        lines.append(
            line(
                f"{point['max_pages']} pages, {point['max_age_ms']} ms",
                point,
                saved=_share(point["saved"]),
                saved_received=_share(point["saved_received"]),
                pages_per_flush=_per(point["pages_per_flush"]),
                mean=f"{point['held_mean'] * PAGE_KIB:,.0f} KiB",
                most=f"{point['held_max'] * PAGE_KIB:,.0f} KiB",
                seconds=f"{point['seconds']:.1f}",
            )
        )
    return lines


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _per(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


def _reasons(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in counts.items() if n) or "-"


def verdict(rows: Sequence[Row]) -> list[str]:
    """Which limits would do, in all and by size."""
    lines = []
    pair, found = defaults(rows), means(rows)
    if pair:
        best = min(found, key=lambda one: found[one])
        lines.append(
            f"All sizes: the least pages, and then the least age, that leave at most "
            f"{NEAR - 1:.0%} more flushes than the best limits do are {pair[0]} pages and "
            f"{pair[1]} ms ({found[pair]:.2f} for 1,000 pages; best {found[best]:.2f}, with "
            f"{best[0]} pages and {best[1]} ms).  This is the rule for max_pages; between ages "
            f"of 100 ms and more the difference is noise, here and at 1 MB/s (migrc-growth)"
        )
    for row in rows:
        point = cheapest(points(row))
        if point is None:
            lines.append(f"Fast node of {row['size_mb']} MiB: no pair of limits saves anything")
            continue
        lines.append(
            f"Fast node of {row['size_mb']} MiB: the least pages, and then the least age, that "
            f"save {ENOUGH:.0%} of what the best limits save are {point['max_pages']} pages "
            f"and {point['max_age_ms']} ms (flushes {_share(point['saved'])} less, at most "
            f"{point['held_max'] * PAGE_KIB:,.0f} KiB seen held)"
        )
    return lines


# --- runs ----------------------------------------------------------------------


def _figures(found: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """What the limits of one age have done, by the pages that may be held."""
    return {
        f"{key}_{point['max_pages']}": value
        for point in found
        for key, value in (
            ("flushes", point["flushes_per_1000"]),
            ("less", point["saved"]),
            ("held_kib", point["held_max"] * PAGE_KIB),
            ("per_flush", point["pages_per_flush"]),
        )
    }


def runs(facts: dict[str, Any]) -> list[ledger.Run]:
    """For each size both steps with MIGRC off, and what limits would do; for each age a curve."""
    rows: list[Row] = facts["rows"]
    found = []
    for row in rows:
        size, made = f"{row['size_mb']} MiB", points(row)
        off, again = (off_steps(row)[name] for name in ("off", "off-again"))
        cheap = cheapest(made) or {}
        common = {"kernel": row["kernel"], "checks": check([row]), "date": row["date"]}
        figures = {
            "off": off["flushes_per_1000"],
            "off_again": again["flushes_per_1000"],
            "enough_pages": cheap.get("max_pages"),
            "enough_age_ms": cheap.get("max_age_ms"),
            "enough_less": cheap.get("saved"),
            "revived": row.get("revived", 0),
        }
        found.append(ledger.Run(size, figures, seconds=row["seconds"], **common))
        for age in sorted({point["max_age_ms"] for point in made}):
            own = [point for point in made if point["max_age_ms"] == age]
            curve = [(one["max_pages"], one["left"]) for one in own if one["left"] is not None]
            found.append(ledger.Run(f"{size}, {age} ms", _figures(own), curve=curve, **common))
    return [*found, *_all_sizes(rows)]


def _all_sizes(rows: Sequence[Row]) -> list[ledger.Run]:
    """The limits that would do for all sizes, and the means that say so."""
    pair, mean = defaults(rows), means(rows)
    if not pair:
        return []
    figures: dict[str, float | None] = {
        "enough_pages": pair[0],
        "enough_age_ms": pair[1],
        "enough_flushes": mean[pair],
        "best_flushes": min(mean.values()),
    }
    bad = [row for row in rows if check([row])]
    checks = [f"{len(bad)} of its {len(rows)} sizes do not count"] if bad else []
    date = max(row["date"] for row in rows)
    return [ledger.Run("all sizes", figures, rows[0]["kernel"], checks=checks, date=date)]


# --- all together --------------------------------------------------------------


def arguments(parser: argparse.ArgumentParser) -> None:
    for option, default, text in (
        ("--sizes", SIZES, "of the fast node, in MiB"),
        ("--max-pages", MAX_PAGES, "pages held"),
        ("--max-age-ms", MAX_AGES_MS, "age of what is held"),
    ):
        parser.add_argument(
            option, type=finish.numbers, default=[*default], metavar="N,N", help=text
        )
    finish.add_resume(parser)


def _run(args: argparse.Namespace) -> bool:
    """All sizes; with --resume without those that were done already on the same kernel."""
    began = time.time()
    steps = make_steps(args.max_pages, args.max_age_ms)
    done = kept.Kept(NAME, resume=args.resume)
    rows = []
    for number, size in enumerate(args.sizes, 1):
        title = f"[{number}/{len(args.sizes)}] fast {size} MiB"
        measured = partial(measure_size, size, steps, "tiershift", title, sys.stderr)
        parts = [build.kernel("tiershift").key, str(size), str(ROOM_MB), repr(steps)]
        rows.append(done.get(parts, measured))
    command = scenario.command_line(sys.argv)
    facts = ledger.facts_of(began, command, resumed=done.resumed, rows=rows)
    usual = [*SIZES], [*MAX_PAGES], [*MAX_AGES_MS]
    good = finish.finish(
        STUDIES[0],
        facts,
        runs(facts),
        whole=(args.sizes, args.max_pages, args.max_age_ms) == usual,
    )
    for line in verdict(rows):
        print(f"  {line}")
    return good


COLUMNS = (
    Column("off", "flushes per 1,000 pages, MIGRC off", "{:.2f}"),
    Column("off_again", "off again", "{:.2f}"),
    Column("enough_pages", "pages that do"),
    Column("enough_age_ms", "age that does, ms"),
    Column("enough_less", "flushes less with these", "{:.1%}"),
    Column("enough_flushes", "flushes per 1,000 pages with these", "{:.2f}"),
    Column("best_flushes", "with the best limits", "{:.2f}"),
    Column("revived", "times that kswapd was set going again"),
    *(
        Column(f"{key}_{pages}", f"{title}, {pages} pages", form)
        for key, title, form in (
            ("flushes", "flushes per 1,000 pages", "{:.2f}"),
            ("less", "less", "{:.1%}"),
            ("held_kib", "held at most, KiB", "{:,.0f}"),
            ("per_flush", "deferred pages per flush of theirs", "{:,.0f}"),
        )
        for pages in MAX_PAGES
    ),
)

STUDIES = (
    Study(
        name=NAME,
        title="MIGRC: flushes saved against memory held and age",
        what=f"The scenario lookup runs under NUMA balancing on {VCPUS} CPUs, on fast nodes of "
        "several sizes. Meanwhile max_pages and max_age_ms are changed, and flushes are counted "
        "for each page that migrates under each pair.",
        columns=COLUMNS,
        minutes=13,
        run=_run,
        groups=study.MIGRC,
        arguments=arguments,
        notes=(
            f"About {ROOM_MB} MiB of the fast node are free above its watermarks when the job "
            "starts. The rest is reserved, so that sizes differ in watermarks and not in pressure.",
            f"Under each pair {PAGES:,} pages or more were migrated, after {SETTLE_PAGES:,} to "
            "get used to it. Less is compared with both steps with MIGRC off together; by what "
            "these differ is noise.",
            "Flushes are all that were sent, those of scanners included, which no limit can "
            "save. Deferred pages per flush of theirs leaves these out.",
            "Limits that do, of a size: the least pages, and then the least age, that save "
            f"{ENOUGH:.0%} of what the best save. Of all sizes: those that leave at most "
            f"{NEAR - 1:.0%} more flushes than the best. This is the rule for the defaults.",
            "Held are pages whose source is kept, of both nodes; the limits are for each node.",
            "An age is guest time. Emulated, pages migrate some fifty times slower than on "
            "hardware, so fewer are held in that time.",
        ),
        curve=("max_pages", "flushes per page, of those with MIGRC off"),
    ),
)
