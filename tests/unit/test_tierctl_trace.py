# SPDX-License-Identifier: GPL-2.0
"""Listening: the instance of tracefs, the kernel's events, and debugfs tier/spans."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from tierctl_process import MIB, PID, Machine, answer, first, machine, passes, skips, spans

from tierctl.core.errors import TierctlError
from tierctl.core.paths import TRACING
from tierctl.read import trace

LINUX = Path(__file__).parents[2] / "linux"


def test_instance_is_made_switched_on_and_removed(tmp_path: Path) -> None:
    found = machine(tmp_path)
    seen: dict[str, str | None] = {}
    step = found.step

    def look(second: int) -> None:
        step(second)
        place = f"{trace.INSTANCES}/tierctl-{os.getpid()}"
        seen["size"] = found.get(f"{place}/buffer_size_kb")
        for event in trace.EVENTS:
            seen[event] = found.get(f"{place}/events/tier/{event}/enable")

    found.step = look
    symbols = '{ 0, "changed" }, { 3, "policy" }, { 5, "watermark" }, { 9, "new" }'
    text = f'print fmt: "reason=%s", __print_symbolic(REC->reason, {symbols})'
    found.tree.put(f"{TRACING[1:]}/events/tier/{trace.SKIP}/format", text)
    answer(found)
    assert seen == {"size": "512", trace.PASS: "1", trace.SKIP: "1"}
    assert found.filters == ["reason == 5"]
    assert found.instances() == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, TierctlError("a", "b")])
def test_instance_goes_whatever_happens(tmp_path: Path, error: BaseException) -> None:
    found = machine(tmp_path)

    def fail(second: int) -> None:
        assert found.instances()
        raise error

    found.step = fail
    with pytest.raises((KeyboardInterrupt, SystemExit, TierctlError)):
        answer(found)
    assert found.instances() == []


def test_instance_of_a_dead_tierctl_is_removed_and_of_others_is_not(tmp_path: Path) -> None:
    found = machine(tmp_path)
    for name in (f"tierctl-{os.getpid()}", "tierctl-99999", f"tierctl-{PID}", "tierctl-x", "mine"):
        (tmp_path / trace.INSTANCES[1:] / name).mkdir()
    answer(found)
    assert found.instances() == ["mine", f"tierctl-{PID}", "tierctl-x"]


def _small(found: Machine) -> None:
    found.tree.put("proc/meminfo", "MemTotal: 2097152 kB\nMemAvailable:      50000 kB")


def _refused(found: Machine) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(1, "Operation not permitted", path)

    found.mkdir = refuse  # type: ignore[method-assign]


def _no_events(found: Machine) -> None:
    (found.tree.root / f"{TRACING[1:]}/events/tier/{trace.PASS}/format").unlink()


def _no_tracefs(found: Machine) -> None:
    (found.tree.root / trace.INSTANCES[1:]).rmdir()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_small, "would take much of the free memory"),
        (_refused, "Operation not permitted"),
        (_no_events, f"absent: {TRACING}/events/tier/{trace.PASS}/format"),
        (_no_tracefs, f"absent: {trace.INSTANCES}"),
    ],
)
def test_why_nothing_is_heard_is_said(tmp_path: Path, make: object, why: str) -> None:
    found = machine(tmp_path)
    found.tree.put(trace.SPANS[1:], "")
    make(found)  # type: ignore[operator]
    assert why in first(answer(found), "unknown").what and found.made == []


def test_lost_events_are_said(tmp_path: Path) -> None:
    found = machine(tmp_path)
    found.trace = passes([0]).replace("written: 5/5", "written: 5/105")
    assert answer(found).lost == 100


def test_text_of_the_kernel_gives_visits_and_skips() -> None:
    text = passes([5, 6]) + skips("nomem") + "\n<...>-1 [000] ..... 1.0: tier_scan_pass: pid=x"
    heard = trace.parse(text + "\njunk 1.0: tier_promote_skip: pfn=0x1 reason=policy")
    assert [(one.pushed, one.done) for one in heard.visits] == [(5, 1), (6, 1)]
    assert heard.skips == [trace.Skip(0, "nomem")]


def test_events_of_a_kernel_without_done_are_read() -> None:
    old = trace.parse(passes([5], done=""))
    new = trace.parse(passes([5]))
    assert [one.done for one in (*old.visits, *new.visits)] == [0, 1]
    assert old.visits[0]._replace(done=1) == new.visits[0]


def test_spans_of_the_kernel_are_read_by_the_names_of_columns(tmp_path: Path) -> None:
    found = machine(tmp_path)
    found.tree.put(trace.SPANS[1:], spans(pushed=77, age_ms=1200))
    wanted = trace.Span(PID, 77, 0, MIB << 20, 250_000, 900, 77, 77, 1200, 3)
    assert trace.spans(found) == {PID: wanted}  # pid 0 has no owner
    names, *lines = spans(pushed=77).splitlines()
    more = "\n".join([f"new {names}", *(f"9 {line}" for line in lines), "cut 1 2"])
    found.tree.put(trace.SPANS[1:], more)
    assert trace.spans(found) == {PID: wanted}


@pytest.mark.parametrize("text", ["", "pid cgroup begin", "\n\n"])
def test_spans_of_another_format_are_unknown(tmp_path: Path, text: str) -> None:
    found = machine(tmp_path)
    found.tree.put(trace.SPANS[1:], text)
    assert trace.spans(found) is None
    found.denied = (trace.SPANS,)
    assert trace.spans(found) is None


def test_names_of_the_kernel_are_known() -> None:
    """The reason of a skip, and the fields of a visit; ``done`` is in later kernels."""
    header = (LINUX / "promote/files/include/trace/events/tier.h").read_text()
    reasons = re.findall(r'\{ TIER_PROMOTE_\w+,\s+"(\w+)" \}', header)
    assert len(reasons) == 5 and trace.WATERMARK in reasons
    header = (LINUX / "kmmscand/files/include/trace/events/tier_scan.h").read_text()
    assert set(trace.Visit._fields) - {"done"} <= set(re.findall(r"(\w+)=%", header))
