# SPDX-License-Identifier: GPL-2.0
"""tierctl report: points of a record or a bundle, and the page that shows them."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.dom import minidom

import pytest
from tierctl_trees import OURS, STOCK, Stepping, build

from tierctl import cli
from tierctl.core.errors import USAGE, TierctlError
from tierctl.model import history
from tierctl.model.history import Look, Point
from tierctl.model.snapshot import Sampler
from tierctl.report import chart, sections
from tierctl.report.sections import Window

GIB = 1 << 30
START = 1_796_040_000.0  # 2026-11-30 12:00 UTC
FILE = "2026-11-30T12.jsonl"


USUAL = Point(
    time=START,
    host="db01",
    kernel="6.12.115",
    tiers={
        "fast": {"used": 180 * GIB, "free": 20 * GIB},
        "slow": {"used": 300 * GIB, "free": 100 * GIB},
    },
    use={"fast": {"hot": 20 * GIB, "warm": None, "cool": 30 * GIB, "cold": 40 * GIB}},
    hot=None,
    hot_by=None,
    cpu={},
    faults=None,
)


def sample(at: int, by: str | None = "found", **others: Any) -> Point:
    """A sample; hot on slow falls, hint faults come at 50 a second."""
    cpu: dict[str, float | None] = {"scan": 0.1, "promote": 0.2, "kswapd": None, "damon": 0.0}
    hot = None if by is None else max(0, 100 - at) * GIB
    found = replace(USUAL, time=START + 10 * at, hot=hot, hot_by=by)
    if at:
        found = replace(found, cpu=cpu, faults=50.0)
    return replace(found, **others)


def write(place: Path, *found: Point | bytes, name: str = FILE) -> Path:
    """A record of lines."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / name).open("ab") as file:
        file.writelines(one if isinstance(one, bytes) else history.to_line(one) for one in found)
    return place


def record(tmp_path: Path, count: int = 60, **others: Any) -> Path:
    """A record of ten minutes."""
    return write(tmp_path / "r", *(sample(i, **others) for i in range(count)))


class Parser(HTMLParser):
    """Checks that elements are nested well, and keeps tags."""

    def __init__(self, body: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.feed(body)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember an element."""
        self.tags.add(tag)
        if tag not in ("meta", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember an empty element."""
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check the element that ends."""
        assert self.open and self.open.pop() == tag


def page(*words: str, root: str = "/") -> str:
    """The report that a command writes; the last word is its file."""
    file = Path(words[-1])
    assert cli.main(["--root", root, "report", *words[:-1], "-o", str(file), "--force"]) == 0
    return file.read_text("utf-8")


# --- reading ---------------------------------------------------------------------


def test_points_are_read_as_they_were_written(tmp_path: Path) -> None:
    wanted = [sample(at, map=looks(at)) for at in range(3)]
    found = history.load(write(tmp_path, *wanted))
    assert [history.to_line(one) for one in found.points] == [
        history.to_line(one) for one in wanted
    ]
    assert (found.samples, found.damaged) == (3, 0)


def test_order_is_by_time(tmp_path: Path) -> None:
    read = history.load(write(tmp_path, *(sample(at) for at in (2, 0, 1))))
    assert [one.time - START for one in read.points] == [0, 10, 20] and read.samples == 3


def test_line_of_a_later_version_with_one_more_field_is_read(tmp_path: Path) -> None:
    line = json.loads(history.to_line(sample(1)))
    found = history.load(write(tmp_path, json.dumps(line | {"more": 1}).encode() + b"\n"))
    assert len(found.points) == 1 and found.damaged == 0


def changed(line: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A line with another value at "a.b.c"."""
    *way, last = path.split(".")
    inside = line
    for one in way:
        inside = inside[one]
    inside[last] = value
    return line


DAMAGED: list[bytes | tuple[str, object]] = [
    b"",
    b"{",
    b"3",
    b"null",
    b"[]",
    b"\xff\xfe",
    b'{"t":1}',
    b"[" * 100_000,
    b'{"schema":"tierctl-record/1"}',
    ("schema", "other/1"),
    ("time", float("nan")),
    ("time", -1),
    ("time", 1e14),
    ("time", 10**400),
    ("host", 3),
    ("time", "1"),
    ("hot", "3"),
    ("hot", -3),
    ("hot", True),
    ("hot", 10**19),
    ("hot_by", []),
    ("faults", {}),
    ("cpu", None),
    ("cpu.scan", 1e300),
    ("tiers", [1]),
    ("tiers.fast", 3),
    ("tiers.fast.free", "3"),
    ("use.fast.hot", [1]),
    ("map", {"pid": 1}),
    ("map", 3),
    ("map.pid", None),
    ("map.name", 3),
    ("map.begins", [1 << 50, 0, 0]),
    ("map.begins", [0, None, 1]),
    ("map.cells", [1.0]),
    ("map.cells", ["1", 1, 1]),
]


@pytest.mark.parametrize("wrong", DAMAGED, ids=lambda one: str(one)[:40])
def test_damaged_lines_are_left_out_and_counted(
    tmp_path: Path, wrong: bytes | tuple[str, object]
) -> None:
    whole = sample(1, map=looks(1))
    line = wrong
    if not isinstance(wrong, bytes):
        line = json.dumps(changed(json.loads(history.to_line(whole)), *wrong)).encode()
    assert isinstance(line, bytes)
    place = write(tmp_path, sample(0), line + b"\n", sample(2))
    found = history.load(place)
    assert len(found.points) == 2 and found.damaged == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [("none", "there is no record"), ("empty", "no file of a record"), ("bad", "no sample")],
)
def test_nothing_to_read_is_one_error(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path / "bad", b"{}\n")
    with pytest.raises(TierctlError, match=words) as found:
        history.load(tmp_path / name)
    assert found.value.code == USAGE and found.value.todo


def test_record_of_a_newer_tierctl_is_refused() -> None:
    with pytest.raises(TierctlError, match=r"tierctl-record/2'; install a newer tierctl"):
        history.from_line(b'{"schema":"tierctl-record/2"}')


def test_long_record_is_an_even_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST", 30)
    found = history.load(record(tmp_path, 100))
    assert found.samples == 100 and found.damaged == 0
    assert [one.time - START for one in found.points] == [40 * i for i in range(25)]


@pytest.mark.parametrize("spec", [OURS, STOCK])
def test_bundle_has_a_point_for_each_sample(tmp_path: Path, spec: Any) -> None:
    build(tmp_path / "root", spec)
    bundle = str(tmp_path / "b.json.gz")
    words = ["--root", str(tmp_path / "root"), "capture", bundle, "--interval", "0.05"]
    assert cli.main(words) == 0
    found = history.load(Path(bundle))
    assert len(found.points) == 3 and found.damaged == 0
    assert found.points[0].hot_by == ("found" if spec is OURS else "mglru")
    assert found.points[0].cpu == {} and found.points[2].cpu["kswapd"] == 0.0
    Parser(page("--before", bundle, "--after", bundle, str(tmp_path / "x.html")))


# --- pictures --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("high", "last"), [(0, 1), (1, 1), (1.01, 1.5), (9, 10), (95, 100), (5e-324, 1), (7e9, 8e9)]
)
def test_ticks_are_round_and_reach_the_value(high: float, last: float) -> None:
    found = chart.nice(high)
    assert found[0] == 0 and found[-1] == pytest.approx(last) and 2 <= len(found) <= 7


@pytest.mark.parametrize(
    ("high", "unit"), [(0, "B"), (1000, "B"), (3 << 20, "MiB"), (GIB, "GiB"), (5 << 40, "TiB")]
)
def test_bytes_have_a_unit(high: int, unit: str) -> None:
    axis = chart.bytes_axis(high)
    assert axis.title == unit and axis.high >= high
    assert all(len(axis.label(one)) <= 5 for one in axis.ticks)


@pytest.mark.parametrize("span", [0, 1, 59, 3600, 86_400, 7 * 86_400, 400 * 86_400])
def test_time_axis_has_some_ticks_within_the_span(span: int) -> None:
    axis = chart.time_axis(START + 3, START + 3 + span)
    assert 1 <= len(axis.ticks) <= 9 and axis.high > axis.low
    assert all(axis.low <= one <= axis.high for one in axis.ticks)


def test_means_keep_the_unknown_and_lines_have_holes_there() -> None:
    dots = [(float(i), float(i % 10) if i < 900 else None) for i in range(1000)]
    found = chart.means(dots, 100)
    assert len(found) == 100 and found[0] == (4.5, 4.5) and found[-1][1] is None
    assert chart.means([]) == []
    some = [(0.0, 1.0), (1.0, 1.0), (2.0, None), (3.0, 1.0), (9.0, 1.0)]
    assert [len(one) for one in chart.runs(some)] == [2, 1, 1]


def test_bars_show_mean_use_and_the_rest_as_not_known() -> None:
    found = sections.uses([sample(at) for at in range(10)], "fast")
    assert found["hot"] == 20 * GIB and found["warm"] is None and found["cold"] == 40 * GIB
    assert found["none"] == 90 * GIB and found["free"] == 20 * GIB
    slow = sections.uses([sample(0)], "slow")
    assert slow["hot"] is None and slow["none"] == 300 * GIB
    many = sample(0, use={"fast": {"hot": 400 * GIB, "cold": 0}})
    assert sections.uses([many], "fast")["hot"] == 180 * GIB  # no more than is used


def test_figure_of_a_tier_with_an_unknown_node_is_unknown(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    (tree.root / "sys/devices/system/node/node1/meminfo").unlink()
    found = history.point(Sampler(Stepping(tree)).take())
    assert found.tiers["fast"]["free"] is None and found.tiers["slow"]["free"]
    assert sections.uses([found], "fast")["free"] is None
    (section,) = sections.before_after([Window("", [found])]).figures
    assert "<td>unknown</td>" in section and "<td>?</td>" in section


def looks(at: int) -> Look:
    """A process whose memory moves up."""
    begins = [i << 30 for i in range(3)]
    return Look(4711, "redis<i>", 3 << 30, 2, begins, [1 - at % 11 / 10, 0.5, None])


def test_map_has_a_shade_for_each_share() -> None:
    rows = [(START + 10 * at, looks(at).cells) for at in range(11)]
    body = chart.cells([0, 1 << 30, 2 << 30], rows).svg("m", "t", "a")
    assert all(f'"share{at}"' in body for at in range(5)) and ">40000000<" in body
    minidom.parseString(body)
    for slow, shade in ((0, 4), (0.3, 3), (0.5, 2), (0.7, 1), (1, 0), (7, 0)):
        assert f'"share{shade}"' in chart.cells([0], [(START, [slow])]).svg("m", "t", "a")
    many = chart.cells(range(500), [(START, [0.0] * 500)]).svg("m", "t", "a")
    assert many.count('text-anchor="end"') <= chart.LABELS + 1


# --- the page --------------------------------------------------------------------


def test_page_has_its_sections_in_order_and_needs_no_network(tmp_path: Path) -> None:
    place = write(tmp_path / "r", *(sample(i, map=looks(i)) for i in range(60)))
    body = page("--from", str(place), str(tmp_path / "x.html"))
    found = Parser(body)
    assert re.findall(r"<h2>(.*?)</h2>", body) == [
        "Before and after, by hotness and tier",
        "Hot on slow over time",
        "Which threads pay, and hint faults",
        "Time against address",
    ]
    assert not found.tags & {"script", "link", "img", "iframe", "object", "base", "form"}
    assert "http" not in re.sub(r'http-equiv="Content-Security-Policy"', "", body)
    assert not re.search(r"url\(|@import|\bon\w+=", body) and "@media print" in body
    figures = re.findall(r"<figure>.*?</figure>", body, re.DOTALL)
    assert len(figures) == 4
    for one in figures:
        minidom.parseString(one)
        assert ("<svg" in one) == ("orizontal axis: " in one) == ('class="unit"' in one)
    for one in (figures[1], figures[3]):
        assert re.search(r"<title id=.*?>.+?</title><desc id=.*?>.+?</desc>", one)
    units = re.findall(r'class="unit"[^>]*>(.*?)</text>', body)
    assert {"GiB", "time (UTC)", "address"} <= set(units)
    assert '<tr><th scope="row">kpromoted</th><td>0.200</td><td>0.200</td></tr>' in figures[2]
    assert ">kswapd</th><td>?</td><td>?</td>" in figures[2]
    assert ">hint faults a second</th><td>50</td><td>50</td>" in figures[2]
    ids = re.findall(r' id="(.*?)"', body)
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'<(?:i|path) class="(\w+)"', body))
    assert len(used) > 10 and all(re.search(rf"\.{one}\b", body) for one in used)
    assert "prefers-color-scheme: dark" in body


def test_bars_are_as_wide_as_their_bytes(tmp_path: Path) -> None:
    (body,) = sections.before_after([Window("", [sample(1)])]).figures
    first = body.partition("</tr>")[0]
    widths = dict(re.findall(r'<i class="(\w+)" style="width:([\d.]+)%">', first))
    assert [float(widths[one]) for one in ("hot", "warm", "cold", "none", "free")] == [
        5, 0, 10, 22.5, 5
    ]  # fmt: skip
    assert ">90.0G</i>" in body and ">20.0G</i>" not in body  # no words in a narrow part


def test_names_from_a_record_are_escaped(tmp_path: Path) -> None:
    evil = '"><script>alert(1)</script>&\x1b[31m'
    some = [sample(i, map=replace(looks(i), name=evil)) for i in range(5)]
    place = write(tmp_path / "r", *(replace(one, host=evil, kernel=evil) for one in some))
    body = page("--from", str(place), str(tmp_path / "x.html"))
    assert "<script" not in body and "\x1b" not in body and "&lt;script&gt;" in body
    Parser(body)


def test_estimate_is_marked(tmp_path: Path) -> None:
    place = record(tmp_path, 5, by="mglru")
    body = page("--from", str(place), str(tmp_path / "x.html"))
    assert "an estimate of MGLRU" in body and "~hot on slow" in body
    write(place, *(sample(i) for i in range(5, 9)))
    assert "The figure changed its meaning" in page("--from", str(place), str(tmp_path / "x.html"))


def test_unknown_is_said_and_never_0(tmp_path: Path) -> None:
    some = []
    for at in range(3):
        unknown = {tier: {"used": None, "free": None} for tier in ("fast", "slow")}
        some.append(sample(at, by=None, use={}, tiers=unknown, cpu={}, faults=None))
    body = page("--from", str(write(tmp_path / "r", *some)), str(tmp_path / "x.html"))
    assert "hot on slow: ? before, ? after" in body
    assert "Unknown.  It needs a tiershift kernel" in body
    assert body.count("<td>?</td>") == 10 + 4 * 6 and ">0</td>" not in body
    assert "Time against address" not in body
    Parser(body)


@pytest.mark.parametrize(
    ("tiers", "words"),
    [
        ({}, "does not tell which nodes are fast"),
        ({"fast": {"used": 1, "free": 2}}, "This machine has no slow node."),
    ],
)
def test_machine_without_tiers_says_so(tmp_path: Path, tiers: dict[str, Any], words: str) -> None:
    point = sample(0, by=None, tiers=tiers)
    body = page("--from", str(write(tmp_path / "r", point)), str(tmp_path / "x.html"))
    assert words in body and ("hot on slow: ?" in body) == (tiers == {})


def test_two_records_are_compared_by_their_means(tmp_path: Path) -> None:
    before, after = record(tmp_path / "a"), record(tmp_path / "b", 101)
    out = str(tmp_path / "x.html")
    body = page("--before", str(before), "--after", str(after), out)
    assert "70.5G before, 50.0G after" in body and body.count("<figure>") == 2
    assert ">before fast<" in body and ">after slow<" in body
    Parser(body)


def test_page_of_a_long_record_is_small(tmp_path: Path) -> None:
    place = record(tmp_path, 1000)
    assert len(page("--from", str(place), str(tmp_path / "x.html"))) < 120_000


# --- command ---------------------------------------------------------------------


def test_record_of_the_machine_is_the_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "var/lib/tierctl/record", sample(0))
    body = page(str(tmp_path / "x.html"), root=str(tmp_path))
    assert "hot on slow: 100.0G<" in body and ", 1 sample\n" in capsys.readouterr().out


def test_file_is_replaced_only_with_force_and_has_the_rights_that_umask_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["report", "--from", str(record(tmp_path)), "-o", str(tmp_path / "x.html")]
    (tmp_path / "x.html").write_text("mine")
    assert cli.main(words) == USAGE
    assert (tmp_path / "x.html").read_text() == "mine" and "--force" in capsys.readouterr().err
    mask = os.umask(0o077)
    try:
        assert cli.main([*words, "--force"]) == 0
    finally:
        os.umask(mask)
    assert (tmp_path / "x.html").read_text() != "mine"
    assert (tmp_path / "x.html").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--from", "/nowhere"), "there is no record /nowhere"),
        (("--before", "R"), "go together"),
        (("--before", "R", "--after", "/nowhere"), "there is no record /nowhere"),
        (("--before", "2026-11-30T12:00", "--after", "R"), "there is no record 2026-11-30T12:00"),
        (("--from", "F"), "F is no bundle of tierctl"),
        (("--from", "R", "-o", "/nowhere/x"), "there is no directory /nowhere"),
        (("--from", "R", "-o", "/dev/null", "--force"), "is no regular file"),
        (("--from", "R", "--json"), "report prints no JSON"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    error: str,
) -> None:
    (tmp_path / "F").write_text("text")
    names = {"R": str(record(tmp_path, 2)), "F": str(tmp_path / "F")}
    given = [names.get(one, one) for one in words]
    if "-o" not in words:
        given += ["-o", str(tmp_path / "x.html")]
    assert cli.main(["report", *given]) == USAGE
    captured = capsys.readouterr()
    assert error in captured.err and captured.err.count("\n") == 1
    assert not (tmp_path / "x.html").exists()
