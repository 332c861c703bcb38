# SPDX-License-Identifier: GPL-2.0
"""tierctl report: points of a record or a bundle, and the page that shows them."""

from __future__ import annotations

import gzip
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.dom import minidom

import pytest
import tierctl_schemas
from tierctl_trees import OURS, STOCK, Stepping, build

from tierctl import cli
from tierctl.core.errors import USAGE, TierctlError
from tierctl.model import history
from tierctl.model.addressmap import AddressMap, Column, Line
from tierctl.model.history import Point
from tierctl.model.snapshot import Sampler
from tierctl.read.counters import Flow
from tierctl.read.lru import Part
from tierctl.read.threads import Cost
from tierctl.report import chart, sections

GIB = 1 << 30
START = 1_796_040_000.0  # 2026-11-30 12:00 UTC
FILE = "2026-11-30T12.jsonl"


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Point:
    """A point of a machine with two fast nodes of 100 GiB and a slow one of 400 GiB."""
    source = Stepping(build(tmp_path_factory.mktemp("machine"), OURS))
    found = history.point(Sampler(source).take())
    for node in found.status.nodes:
        node.total = (400 if node.tier == "slow" else 100) * GIB
        node.free = node.total // (4 if node.tier == "slow" else 10)
        node.used = node.total - node.free
    return found


def sample(usual: Point, at: int, by: str | None = "found", **others: Any) -> Point:
    """A sample; hot on slow falls, hint faults come at 50 a second."""
    hot = None if by is None else max(0, 100 - at) * GIB
    worth = replace(usual.status.worth, hot_on_slow=Part(hot, 0, None), hot_by=by)
    cpu: dict[str, float | None] = {"scan": 0.1, "promote": 0.2, "kswapd": None, "damon": 0.0}
    flow = Flow(10.0, [], [], None, None, None, 50.0, None, {})
    status = replace(
        usual.status,
        worth=worth,
        flow=flow if at else None,
        cost=Cost(10.0, cpu, {}) if at else None,
    )
    use = {"fast": {"hot": 20 * GIB, "warm": None, "cool": 30 * GIB, "cold": 40 * GIB}}
    found = replace(usual, time=START + 10 * at, host="db01", status=status, use=use)
    return replace(found, **others)


def write(place: Path, *found: Point | bytes, name: str = FILE) -> Path:
    """A record of lines."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / name).open("ab") as file:
        file.writelines(one if isinstance(one, bytes) else history.to_line(one) for one in found)
    return place


def record(tmp_path: Path, usual: Point, count: int = 60, **others: Any) -> Path:
    """A record of ten minutes."""
    return write(tmp_path / "r", *(sample(usual, i, **others) for i in range(count)))


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
        if tag not in ("meta", "path", "rect"):
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


def test_points_are_read_as_they_were_written(tmp_path: Path, usual: Point) -> None:
    wanted = [sample(usual, at, map=looks(at)) for at in range(3)]
    found = history.load(write(tmp_path, *wanted))
    assert [history.to_line(one) for one in found.points] == [
        history.to_line(one) for one in wanted
    ]
    assert (found.samples, found.damaged) == (3, 0)


def test_lines_that_come_twice_count_once_and_order_is_by_time(
    tmp_path: Path, usual: Point
) -> None:
    found = write(tmp_path, *(sample(usual, at) for at in (2, 0, 1, 1, 0)))
    read = history.load(found)
    assert [one.time - START for one in read.points] == [0, 10, 20] and read.samples == 3


def changed(line: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A line with another value at "a.b.0.c"."""
    *way, last = path.split(".")
    inside: Any = line
    for one in way:
        inside = inside[int(one)] if isinstance(inside, list) else inside[one]
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
    ("status", None),
    ("status.nodes", 3),
    ("status.nodes.0.free", "3"),
    ("status.nodes.0.free", -3),
    ("status.nodes.0.free", True),
    ("status.nodes.0.free", 10**19),
    ("status.worth.hot_on_slow", None),
    ("status.cost.cpu.scan", 1e300),
    ("use.fast.hot", [1]),
    ("map", {"pid": 1}),
    ("map.columns.0.begin", 1 << 50),
    ("map.rows.0.cells", [1.0]),
]


@pytest.mark.parametrize("wrong", DAMAGED, ids=lambda one: str(one)[:40])
def test_damaged_lines_are_left_out_and_counted(
    tmp_path: Path, usual: Point, wrong: bytes | tuple[str, object]
) -> None:
    whole = sample(usual, 1, map=looks(1))
    line = wrong
    if not isinstance(wrong, bytes):
        line = json.dumps(changed(json.loads(history.to_line(whole)), *wrong)).encode()
    assert isinstance(line, bytes)
    place = write(tmp_path, sample(usual, 0), line + b"\n", sample(usual, 2))
    found = history.load(place)
    assert len(found.points) == 2 and found.damaged == 1


def test_compressed_file_that_is_cut_gives_what_it_has(tmp_path: Path, usual: Point) -> None:
    data = gzip.compress(b"".join(history.to_line(sample(usual, at)) for at in range(300)))
    (tmp_path / "2026-11-30T12.jsonl.gz").write_bytes(data[: len(data) // 2])
    (tmp_path / "2026-11-29T12.jsonl.gz").write_bytes(b"no gzip")
    found = history.load(tmp_path)
    assert 0 < len(found.points) < 300 and found.damaged == 2


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


def test_long_record_is_an_even_choice(
    tmp_path: Path, usual: Point, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MOST", 30)
    found = history.load(record(tmp_path, usual, 100))
    assert found.samples == 100
    assert [one.time - START for one in found.points] == [40 * i for i in range(25)]


@pytest.mark.parametrize("spec", [OURS, STOCK])
def test_bundle_has_a_point_for_each_sample(tmp_path: Path, spec: Any) -> None:
    build(tmp_path / "root", spec)
    bundle = str(tmp_path / "b.tar.gz")
    words = ["--root", str(tmp_path / "root"), "capture", bundle, "--interval", "0.05"]
    assert cli.main(words) == 0
    found = history.load(Path(bundle))
    assert len(found.points) == 3 and found.damaged == 0
    assert found.points[0].status.worth.hot_by == ("found" if spec is OURS else "mglru")
    cost = found.points[2].status.cost
    assert cost is not None and cost.cpu["kswapd"] == 0.0
    Parser(page("--before", bundle, "--after", bundle, str(tmp_path / "x.html")))


# --- pictures --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("high", "last"), [(0, 1), (1, 1), (1.01, 1.5), (9, 10), (95, 100), (0.003, 0.003), (7e9, 8e9)]
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


def test_bars_show_mean_use_and_the_rest_as_not_known(usual: Point) -> None:
    points = [sample(usual, at) for at in range(10)]
    found = sections.uses(points, "fast")
    assert found["hot"] == 20 * GIB and found["warm"] is None and found["cold"] == 40 * GIB
    assert found["none"] == 90 * GIB and found["free"] == 20 * GIB
    slow = sections.uses(points, "slow")
    assert slow["hot"] is None and slow["none"] == 300 * GIB
    many = sample(usual, 0, use={"fast": {"hot": 400 * GIB, "cold": 0}})
    assert sections.uses([many], "fast")["hot"] == 180 * GIB  # no more than is used


def test_figure_of_a_tier_with_an_unknown_node_is_unknown(usual: Point) -> None:
    nodes = [replace(one, free=one.free if one.node else None) for one in usual.status.nodes]
    point = sample(usual, 0)
    point.status.nodes = nodes
    assert sections.uses([point], "fast")["free"] is None
    assert sections.uses([point], "slow")["free"] == 100 * GIB


def looks(at: int) -> AddressMap:
    """A process whose memory moves up."""
    columns = [Column(i << 30, (i + 1) << 30) for i in range(3)]
    rows = [Line(START + 10 * at, [1 - at % 11 / 10, 0.5, None])]
    return AddressMap(4711, "redis<i>", "slow_share", 2 << 20, 1536, 2, columns, rows)


def test_map_has_a_shade_for_each_share() -> None:
    rows = [(one.rows[0].time_s, one.rows[0].cells) for one in map(looks, range(11))]
    body = chart.cells("m", "t", "a", [0, 1 << 30, 2 << 30], rows)
    assert all(f'"cell share{at}"' in body for at in range(5)) and ">40000000<" in body
    minidom.parseString(body)
    assert [chart.shade(at / 4) for at in range(5)] == [0, 1, 2, 3, 4]


# --- the page --------------------------------------------------------------------


def test_page_has_its_sections_in_order_and_needs_no_network(tmp_path: Path, usual: Point) -> None:
    place = write(tmp_path / "r", *(sample(usual, i, map=looks(i)) for i in range(60)))
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
    assert len(figures) == 4 and figures[0].count("<table>") == 1
    for one in figures:
        minidom.parseString(one)
        assert re.search(r"<title id=.*?>.+?</title><desc id=.*?>.+?</desc>", one)
        assert "orizontal axis: " in one and 'class="unit"' in one
    units = re.findall(r'class="unit"[^>]*>(.*?)</text>', body)
    assert {"GiB", "CPUs", "hint faults/s", "time (UTC)", "address"} <= set(units)
    assert "None at all: kdamond.  Unknown: kswapd." in body
    ids = re.findall(r' id="(.*?)"', body)
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'class="(?:line|bar|cell) (\w+)"', body))
    assert all(f".{one} " in body for one in used)  # each has a colour


def test_names_from_a_record_are_escaped(tmp_path: Path, usual: Point) -> None:
    evil = '"><script>alert(1)</script>&\x1b[31m'
    some = [sample(usual, i, map=replace(looks(i), name=evil)) for i in range(5)]
    place = write(tmp_path / "r", *(replace(one, host=evil, kernel=evil) for one in some))
    body = page("--from", str(place), str(tmp_path / "x.html"))
    assert "<script" not in body and "\x1b" not in body and "&lt;script&gt;" in body
    Parser(body)


def test_estimate_is_marked(tmp_path: Path, usual: Point) -> None:
    place = record(tmp_path, usual, 5, by="mglru")
    body = page("--from", str(place), str(tmp_path / "x.html"))
    assert "an estimate of MGLRU" in body and "~hot on slow" in body
    write(place, *(sample(usual, i) for i in range(5, 9)))
    assert "The figure changed its meaning" in page("--from", str(place), str(tmp_path / "x.html"))


def test_unknown_is_said_and_never_0(tmp_path: Path, usual: Point) -> None:
    some = []
    for at in range(3):
        one = sample(usual, at, by=None, use={})
        unknown = [replace(node, free=None, used=None) for node in usual.status.nodes]
        one.status = replace(one.status, nodes=unknown, flow=None, cost=None)
        some.append(one)
    body = page("--from", str(write(tmp_path / "r", *some)), str(tmp_path / "x.html"))
    assert "hot on slow: ? before, ? after" in body
    assert "Unknown.  It needs a tiershift kernel" in body
    assert "Unknown: kmmscand, kpromoted, kswapd, kdamond, hint faults." in body
    assert "<td>?</td>" in body and ">0</td>" not in body
    assert "Time against address" not in body
    Parser(body)


@pytest.mark.parametrize(
    ("tier", "words"),
    [(None, "does not tell which nodes are fast"), ("fast", "This machine has no slow node.")],
)
def test_machine_without_tiers_says_so(
    tmp_path: Path, usual: Point, tier: str | None, words: str
) -> None:
    point = sample(usual, 0, by=None)
    point.status.nodes = [replace(one, tier=tier) for one in usual.status.nodes]
    body = page("--from", str(write(tmp_path / "r", point)), str(tmp_path / "x.html"))
    assert words in body and ("hot on slow: ?" in body) == (tier is None)


def test_two_records_are_compared_by_their_means(tmp_path: Path, usual: Point) -> None:
    before, after = record(tmp_path / "a", usual), record(tmp_path / "b", usual, 101)
    out = str(tmp_path / "x.html")
    body = page("--before", str(before), "--after", str(after), out)
    assert "70.5G before, 50.0G after" in body and body.count("<figure>") == 1
    assert ">before fast<" in body and ">after slow<" in body
    Parser(body)


def test_page_of_a_long_record_is_small(tmp_path: Path, usual: Point) -> None:
    place = record(tmp_path, usual, 1000)
    assert len(page("--from", str(place), str(tmp_path / "x.html"))) < 120_000


# --- command ---------------------------------------------------------------------


def test_record_of_the_machine_is_the_default(
    tmp_path: Path, usual: Point, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "var/lib/tierctl/record", sample(usual, 0))
    body = page(str(tmp_path / "x.html"), root=str(tmp_path))
    assert "hot on slow: 100.0G<" in body and ", 1 sample\n" in capsys.readouterr().out


def test_json_agrees_with_its_schema(
    tmp_path: Path, usual: Point, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(record(tmp_path, usual))
    words = ["report", "--from", place, "-o", str(tmp_path / "x.html"), "--json"]
    assert cli.main(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert tierctl_schemas.check(document) == []
    assert document["data"]["hot_on_slow_before"] > document["data"]["hot_on_slow_after"]


def test_file_is_replaced_only_with_force_and_has_the_rights_that_umask_says(
    tmp_path: Path, usual: Point, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["report", "--from", str(record(tmp_path, usual)), "-o", str(tmp_path / "x.html")]
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
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path,
    usual: Point,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    error: str,
) -> None:
    (tmp_path / "F").write_text("text")
    names = {"R": str(record(tmp_path, usual, 2)), "F": str(tmp_path / "F")}
    given = [names.get(one, one) for one in words]
    if "-o" not in words:
        given += ["-o", str(tmp_path / "x.html")]
    assert cli.main(["report", *given]) == USAGE
    captured = capsys.readouterr()
    assert error in captured.err and captured.err.count("\n") == 1
    assert not (tmp_path / "x.html").exists()
