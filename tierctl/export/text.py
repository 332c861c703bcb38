# SPDX-License-Identifier: GPL-2.0
"""Text of metrics, made by prometheus_client: OpenMetrics, and the older format of Prometheus.

The textfile collector of node_exporter reads the older format only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from prometheus_client import exposition
from prometheus_client.core import CollectorRegistry, Metric
from prometheus_client.openmetrics import exposition as modern
from prometheus_client.registry import Collector


class Metrics(Protocol):
    """What makes metrics each time it is asked."""

    def collect(self) -> Iterable[Metric]:
        """The metrics now."""


class _Collector(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self.metrics.collect()


def registry(metrics: Metrics) -> CollectorRegistry:
    """A registry with these metrics, and none of the Python process."""
    found = CollectorRegistry(auto_describe=False)
    found.register(_Collector(metrics))
    return found


def render(metrics: Metrics, openmetrics: bool = True) -> str:
    """The text."""
    made = modern.generate_latest if openmetrics else exposition.generate_latest
    return made(registry(metrics)).decode("utf-8", "backslashreplace")
