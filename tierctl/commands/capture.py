# SPDX-License-Identifier: GPL-2.0
"""tierctl capture FILE: all that the other commands read, to look at the machine elsewhere."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from tierctl.checks import check as checks
from tierctl.checks.all import ALL
from tierctl.commands import explain, forecast, heat, status, top, why
from tierctl.commands.report import output
from tierctl.core import bundle, text
from tierctl.core.errors import USAGE, TierctlError, as_root, failed
from tierctl.core.paths import HOSTNAME, RELEASE
from tierctl.core.reply import Note, Reply, show
from tierctl.core.source import DENIED, Recorder, Source
from tierctl.model.snapshot import twice
from tierctl.read import trace
from tierctl.record.anon import Anonymizer

SAMPLES = 3
NODE = re.compile(r"node [0-9]+")
# Read by nothing yet, and useful to a person who looks for a fault
EXTRA = (
    "/proc/cmdline",
    "/proc/version",
    "/proc/meminfo",
    "/proc/swaps",
    "/proc/buddyinfo",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/lru_gen/min_ttl_ms",
    "/proc/sys/vm/zone_reclaim_mode",
    "/proc/sys/vm/swappiness",
    "/proc/sys/vm/min_free_kbytes",
    "/proc/sys/vm/watermark_scale_factor",
)


@dataclass
class Captured:
    """What was written."""

    file: str
    bytes: int
    samples: int
    files: int
    denied: list[str]
    anonymous: bool


def record(
    source: Source, samples: int, interval: float, processes: int, targets: Sequence[str] = ()
) -> Recorder:
    """All samples, each with all that the commands read, and `explain` for its targets."""
    recorder = _Still(source)
    with trace.instance(recorder) if targets else nullcontext(Note(None)) as note:
        for number in range(samples):
            if number:
                recorder.go_on(interval)
            _once(recorder, processes)
            for target in targets:
                try:
                    _explain(recorder, target, note)
                except TierctlError:
                    if not number:  # it does not exist; later it may end
                        raise
    return recorder


def _explain(recorder: Recorder, target: str, note: Note) -> None:
    """What `explain` reads of a target, and `heat --map` of a process."""
    words = target.split() if NODE.fullmatch(target) else [target]
    explain.answer(recorder, words, listening=note)
    if target.isascii() and target.isdigit():
        heat.by_address(recorder, int(target), 1, 0.0)


class _Still(Recorder):
    """Commands that wait see the same sample again; only go_on() begins the next one."""

    def wait(self, seconds: float) -> None:
        """Do nothing."""

    def go_on(self, seconds: float) -> None:
        """Begin the next sample."""
        super().wait(seconds)


def _once(recorder: _Still, processes: int) -> None:
    now = twice(recorder, 0.0)
    status.answer(now)
    checks.run(ALL, now)
    for path in EXTRA:
        recorder.get(path)
    for node in now.machine.nodes:
        why.answer(recorder, node.node)
    with suppress(TierctlError):  # the bundle says why
        heat.histogram(now, None)
    with suppress(TierctlError):
        forecast.answer(recorder)
    with suppress(TierctlError):  # without cgroup v2
        top.by_group(recorder, None, 20_000, 0.0)
        if processes:
            top.by_process(recorder, None, processes, 128)


def command(args: argparse.Namespace, source: Source) -> int:
    """Write a bundle."""
    if not source.live:
        raise TierctlError("capture needs a live machine", "leave out --from", USAGE)
    file = output(args.file, args.force)
    recorder = record(source, args.samples, args.interval, args.processes, args.explain)
    samples = recorder.samples
    host, kernel = (source.get(path) or "?" for path in (HOSTNAME, RELEASE))
    if args.anon:
        hidden = Anonymizer()
        samples, host = [hidden.sample(one) for one in samples], hidden.word(host)
    try:
        bundle.save(file, samples, host, kernel)
    except OSError as error:
        raise failed(error, f"{file} cannot be written", "check the directory") from error
    names = {path for one in samples for path in one.files}
    denied = sorted(path for path in names if any(one.files.get(path) == DENIED for one in samples))
    data = Captured(args.file, file.stat().st_size, len(samples), len(names), denied, args.anon)
    return show(Reply("capture", data), source, args, _draw)


def _draw(reply: Reply, style: text.Style) -> list[str]:
    data: Captured = reply.data
    samples = "1 sample" if data.samples == 1 else f"{data.samples} samples"
    lines = [
        f"{data.file}: {text.size(data.bytes)}, {samples} of {data.files} files"
        + (", names hashed" if data.anonymous else "")
    ]
    if data.denied:
        more = f" and {len(data.denied) - 1} more" if len(data.denied) > 1 else ""
        lines += text.wrap(f"Denied: {data.denied[0]}{more}; {as_root()}.")
    lines.append(f"Look at it with: tierctl --from {data.file} status")
    return lines


SCHEMAS = {"capture": Captured}  # by kind of answer


def add_commands(commands: Any) -> None:
    """The sub-command capture."""
    one = commands.add_parser(
        "capture",
        help="write a bundle of all files that tierctl reads",
        description="The bundle works with --from.  It has names of groups, hosts and processes, "
        "unless --anon hashes them.",
    )
    one.add_argument("file", metavar="FILE", help="FILE.tar.gz")
    one.add_argument("--anon", action="store_true", help="hash names of groups, hosts, processes")
    one.add_argument("--force", action="store_true", help="replace FILE")
    one.add_argument("--samples", type=text.number_from(1, 1000), default=SAMPLES, metavar="N")
    one.add_argument("--interval", type=text.interval, default=1.0, metavar="SECONDS")
    one.add_argument(
        "--processes",
        type=text.number_from(0, 1000),
        default=0,
        metavar="N",
        help="also page tables of the N largest processes",
    )
    one.add_argument(
        "--explain",
        action="append",
        default=[],
        metavar="TARGET",
        help='also what `explain` reads of a PID, a group, or "node N"; with --interval 10 '
        "--samples 2 it listens for 10 s",
    )
    one.set_defaults(func=command)
