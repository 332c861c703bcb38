# SPDX-License-Identifier: GPL-2.0
"""tierctl export: metrics for Prometheus, once or on a port."""

from __future__ import annotations

import argparse
from typing import Any

from tierctl.change import config
from tierctl.change.current import current
from tierctl.core.errors import TierctlError
from tierctl.core.reply import harmless
from tierctl.core.source import Source
from tierctl.read import groups

LRU_EVERY = 60.0  # with --listen: the text of MGLRU is long
FORMATS = ("openmetrics", "prometheus")


def command(args: argparse.Namespace, source: Source) -> int:
    try:
        from tierctl.export import metrics, serve  # noqa: PLC0415 - all else does without
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "prometheus_client":
            raise
        what = "export needs the Python library prometheus_client"
        raise TierctlError(what, "apt install python3-prometheus-client") from None
    if args.json:
        raise TierctlError("metrics have no JSON", "leave out --json")
    settings = config.export(source)
    if args.listen is None:
        exporter = metrics.Exporter(source, settings.groups, current)
        body = metrics.render(exporter, args.format != "prometheus")
        # A bundle may come from anywhere: no control character goes to a terminal
        print("\n".join(harmless(line) for line in body.split("\n")), end="")
        return 0
    if not source.live:
        raise TierctlError("--listen needs a live machine", "leave out --from")
    if args.format:
        what = "--listen answers in the format that a client asks for"
        raise TierctlError(what, "leave out --format")
    exporter = metrics.Exporter(source, settings.groups, current, LRU_EVERY)
    return serve.serve(serve.Paced(exporter, settings.interval_s), args.listen)


def add_commands(commands: Any) -> None:
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
    one.set_defaults(func=command)
