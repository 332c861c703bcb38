# SPDX-License-Identifier: GPL-2.0
"""tierctl capture FILE: all that the other commands read, to look at the machine elsewhere."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tierctl.checks import ALL
from tierctl.checks import check as checks
from tierctl.commands import explain, forecast, heat, status, top, why
from tierctl.commands.report import output
from tierctl.core import bundle, text
from tierctl.core.errors import TierctlError, as_root, failed
from tierctl.core.paths import HOSTNAME, RELEASE
from tierctl.core.reply import Reply, show
from tierctl.core.source import DENIED, Recorder, Source
from tierctl.model.snapshot import twice
from tierctl.record.anon import Anonymizer

SAMPLES = 3


@dataclass
class Captured:
    """What was written."""

    file: str
    bytes: int
    samples: int
    files: int
    denied: list[str]
    anonymous: bool


def record(source: Source, samples: int, interval: float, targets: Sequence[str] = ()) -> Recorder:
    """All samples, each with all that the commands read, and `explain` for its targets."""
    recorder = Recorder(source)
    for number in range(samples):
        if number:
            recorder.go_on(interval)
        _once(recorder)
        for target in targets:
            try:
                _explain(recorder, target)
            except TierctlError:
                if not number:  # it does not exist; later it may end
                    raise
    return recorder


def _explain(recorder: Recorder, target: str) -> None:
    """What `explain` reads of a target, and `heat --map` of a process."""
    words = target.split() if target.startswith("node ") else [target]
    explain.answer(recorder, words)
    if target.isascii() and target.isdigit():
        heat.by_address(recorder, int(target), 1, 0.0)


def _once(recorder: Recorder) -> None:
    now = twice(recorder, 0.0)
    status.answer(now)
    checks.run(ALL, now)
    for node in now.machine.nodes:
        why.answer(recorder, node.node)
    with suppress(TierctlError):  # the bundle says why
        heat.histogram(now, None)
    with suppress(TierctlError):
        forecast.answer(recorder)
    with suppress(TierctlError):  # without cgroup v2
        top.by_group(recorder, None, 20_000, 0.0)


def command(args: argparse.Namespace, source: Source) -> int:
    if not source.live:
        raise TierctlError("capture needs a live machine", "leave out --from")
    file = output(args.file, args.force)
    recorder = record(source, args.samples, args.interval, args.explain)
    samples = recorder.samples
    host, kernel = (source.get(path) or "?" for path in (HOSTNAME, RELEASE))
    if args.anon:
        hidden = Anonymizer()
        samples, host = [hidden.sample(one) for one in samples], hidden.word(host)
    try:
        bundle.save(file, samples, host, kernel)
    except OSError as error:
        raise failed(error, f"{file} cannot be written", "check the directory") from error
    kept = [item for one in samples for item in one.files.items()]
    denied = sorted({key.removesuffix("/.names") for key, one in kept if one == {"why": DENIED}})
    count = len({key for key, _ in kept})
    data = Captured(args.file, file.stat().st_size, len(samples), count, denied, args.anon)
    return show(Reply("capture", data), source, args, _draw)


def _draw(reply: Reply, style: text.Style) -> list[str]:
    data: Captured = reply.data
    samples = f"{data.samples} sample{'s' * (data.samples != 1)} of {data.files} files"
    hashed = ", names hashed" * data.anonymous
    lines = [f"{data.file}: {text.size(data.bytes)}, {samples}{hashed}"]
    if data.denied:
        more = f" and {len(data.denied) - 1} more" if len(data.denied) > 1 else ""
        lines += text.wrap(f"Denied: {data.denied[0]}{more}; {as_root()}.")
    lines.append(f"Look at it with: tierctl --from {data.file} status")
    return lines


def add_commands(commands: Any) -> None:
    one = commands.add_parser(
        "capture",
        help="write a bundle of all files that tierctl reads",
        description="The bundle works with --from.  It has names of groups, hosts and processes, "
        "unless --anon hashes them.",
    )
    one.add_argument("file", metavar="FILE", help="FILE.json.gz")
    one.add_argument("--anon", action="store_true", help="hash names of groups, hosts, processes")
    one.add_argument("--force", action="store_true", help="replace FILE")
    one.add_argument("--samples", type=text.number_from(1, 1000), default=SAMPLES, metavar="N")
    one.add_argument("--interval", type=text.interval, default=1.0, metavar="SECONDS")
    one.add_argument(
        "--explain",
        action="append",
        default=[],
        metavar="TARGET",
        help='also what `explain` reads of a PID, a group, or "node N"; with --interval 10 '
        "--samples 2 it knows two visits",
    )
    one.set_defaults(func=command)
