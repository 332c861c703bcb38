# SPDX-License-Identifier: GPL-2.0
"""tierctl export: metrics for Prometheus, once or on a port."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tierctl.change import config
from tierctl.change.current import current
from tierctl.core import text
from tierctl.core.errors import USAGE, TierctlError
from tierctl.core.reply import Reply, harmless, show
from tierctl.core.source import Source
from tierctl.read import groups

if TYPE_CHECKING:
    from tierctl.export.metrics import Exporter

LRU_EVERY = 60.0  # with --listen: the text of MGLRU is long
FORMATS = ("openmetrics", "prometheus")


@dataclass
class Metric:
    """A point of a metric."""

    name: str  # as in queries
    type: str
    unit: str
    labels: dict[str, str]
    value: float


@dataclass
class Exported:
    """All that is exported."""

    metrics: list[Metric]
    groups: int
    groups_left_out: int


def answer(exporter: Exporter) -> Reply:
    """The metrics as an answer."""
    metrics = [
        Metric(sample.name, one.type, one.unit, dict(sample.labels), sample.value)
        for one in exporter.collect()
        for sample in one.samples
    ]
    data = Exported(metrics, exporter.shown, exporter.left_out)
    return Reply("export", data, exporter.sources)


def command(args: argparse.Namespace, source: Source) -> int:
    """Print the metrics, or answer on a port."""
    try:
        from tierctl.export import metrics, serve  # noqa: PLC0415 - all else does without
        from tierctl.export.text import render  # noqa: PLC0415
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "prometheus_client":
            raise
        what = "export needs the Python library prometheus_client"
        raise TierctlError(what, "apt install python3-prometheus-client", USAGE) from None
    settings = config.export(source)
    if args.group:
        settings.groups = config.checked_patterns(args.group, "--group")
    if args.listen is not None:
        if not source.live:
            raise TierctlError("--listen needs a live machine", "leave out --from", USAGE)
        if args.json or args.format:
            what = "--listen goes with neither --format nor --json"
            raise TierctlError(what, "leave out one of them", USAGE)
        exporter = metrics.Exporter(source, settings.groups, current, LRU_EVERY)
        paced = serve.Paced(exporter, settings.interval_s, time.monotonic)
        return serve.serve(paced, args.listen)
    exporter = metrics.Exporter(source, settings.groups, current)
    if args.json:
        return show(answer(exporter), source, args, _draw)
    body = render(exporter, args.format != "prometheus")
    # A bundle may come from anywhere: no control character goes to a terminal
    print("\n".join(harmless(line) for line in body.split("\n")), end="")
    return 0


def _draw(reply: Reply, style: text.Style) -> list[str]:
    return []  # only --json shows a Reply


SCHEMAS = {"export": Exported}  # by kind of answer


def add_commands(commands: Any) -> None:
    """The sub-command export."""
    one = commands.add_parser(
        "export",
        help="metrics for Prometheus",
        description="Print metrics as OpenMetrics.  Unknown figures are left out.  At most "
        f"{groups.SHOWN} groups, by the patterns of [export] in tierctl.toml.",
    )
    one.add_argument(
        "--listen", metavar="ADDR", help="answer on [HOST:]PORT at /metrics; default: localhost"
    )
    one.add_argument("--format", choices=FORMATS, help="of the text; default: openmetrics")
    one.add_argument(
        "--group", action="append", metavar="PATTERN", help="groups instead of those of [export]"
    )
    one.set_defaults(func=command)
