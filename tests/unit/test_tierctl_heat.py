# SPDX-License-Identifier: GPL-2.0
"""tierctl heat: memory by last use and tier."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path

import pytest
import tierctl_schemas
from tierctl_process import GROUP, PID, SMALL, machine
from tierctl_trees import OLD, OURS, STOCK, Spec, Stepping, Tree, build

from tierctl import cli
from tierctl.commands import capture, heat
from tierctl.commands.heat import Heat
from tierctl.core import bundle as archive
from tierctl.core import reply
from tierctl.core.bundle import Bundle
from tierctl.core.errors import DENIED, LACKING, USAGE, WELL, TierctlError
from tierctl.core.paths import LOOKED, LRU_GEN
from tierctl.core.reply import Reply
from tierctl.core.source import Source
from tierctl.core.text import Style
from tierctl.model.snapshot import Sampler
from tierctl.read import lru
from tierctl.read.lru import Lruvec

PAGE = 4096
Output = pytest.CaptureFixture[str]


def vec(*generations: tuple[float, int], node: int = 0) -> Lruvec:
    """Generations: age in seconds, anonymous pages; each has 1,000 times as much page cache."""
    ages = [int(1000 * age) for age, _ in generations]
    anon = [pages for _, pages in generations]
    return Lruvec("/g", node, ages, anon, [1000 * one for one in anon])


def histogram(source: Source, group: str | None) -> Reply:
    """The answer of a machine."""
    return heat.histogram(Sampler(source).take(), group)


def checked(got: Reply, found: Stepping) -> list[str]:
    """The text of an answer that agrees with its schema."""
    assert tierctl_schemas.check(reply.document(got, found)) == []
    lines = heat.draw(got, Style())
    assert max(map(len, lines)) <= 80 and all(line.isascii() for line in lines)
    return lines


# --- by last use -----------------------------------------------------------------


def test_pages_are_in_the_class_of_the_age_of_their_generation() -> None:
    found = lru.by_use([vec((200, 100), (100, 20), (5, 3), (0.5, 1))], {0}, 1)
    assert found["hot"] == 1001 and found["warm"] == 3003 and found["cool"] is None
    assert found["cold"] == 100 and found["unclear"] == 100_000 + 20_020
    assert lru.by_use([vec((99, 5), (30, 7), (9, 1))], {0}, 1)["cool"] == 7007


def test_class_that_no_look_tells_is_unknown_and_not_0() -> None:
    found = lru.by_use([vec((9000, 50), (9000, 1))], {0}, 1)
    assert found == {"hot": None, "warm": None, "cool": None, "cold": None, "unclear": 51_051}
    assert lru.by_use([vec((9, 9), node=1)], {0}, 1)["warm"] is None


def test_classes_agree_with_status() -> None:
    vecs = [vec((200, 100), (100, 20), (30, 7), (5, 3)), vec((900, 5), (61, 4)), vec((7, 1))]
    found = lru.by_use(vecs, {0}, PAGE)
    assert found["cold"] == lru.total(lru.idle(vecs, [0], PAGE).values()).bytes
    known = sum(found[name] or 0 for name, _, _ in lru.CLASSES)
    assert known == lru.total(lru.used(vecs, [0], PAGE).values()).bytes


def test_rows_of_a_tier_add_up_to_what_is_used(tmp_path: Path) -> None:
    found = Stepping(build(tmp_path, OURS))
    got = histogram(found, None)
    data: Heat = got.data
    assert sum(row.fast or 0 for row in data.rows) == data.fast
    assert sum(row.slow or 0 for row in data.rows) == data.slow
    assert data.waiting == 550_000 * PAGE
    lines = checked(got, found)
    assert lines[0] == "1 character = 50.0G" and "2.1G" in "\n".join(lines)
    assert "Last look of MGLRU: 20 s ago, at most." in lines


def test_group_has_its_own_memory_and_that_of_groups_below(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    text = (
        "memcg 1 /\n node 2\n 1 9000 0  0 \n 2 1000 9  0 \n"
        "memcg 2 /machine.slice\n node 2\n 1 9000 0  0 \n 2 1000 1  0 \n"
        "memcg 3 /machine.slice/x/y\n node 2\n 1 9000 0  0 \n 2 1000 2  0 \n"
        "memcg 4 /machine.slice2\n node 2\n 1 9000 0  0 \n 2 1000 4  0 "
    )
    tree.put("sys/kernel/debug/lru_gen", text)
    found = Stepping(tree)
    got = histogram(found, "machine.slice")
    assert got.data.rows[0].slow == 3 * PAGE and got.data.waiting is None
    assert checked(got, found)[0].startswith("machine.slice, 1 character = ")


def test_scale_is_a_round_number_that_fits() -> None:
    assert heat.scale(402 << 30, 22) == 20 << 30
    assert heat.scale(22, 22) == 1 and heat.scale(23, 22) == 2
    assert heat.scale(1 << 62, 22) * 22 >= 1 << 62
    assert (heat.cells(1, 100), heat.cells(0, 100), heat.cells(None, 100)) == (1, 0, 0)


def test_rows_of_memory_without_age_and_of_unknown_age_are_two(tmp_path: Path) -> None:
    lines = heat.draw(histogram(Stepping(build(tmp_path, OURS)), None), Style())
    assert [line.split()[0] for line in lines[2:8]] == [
        *("used", "used", "used", "cold", "unclear", "other"),
    ]
    assert "not known" in lines[6] and "no age" in lines[7]


def test_machine_without_a_look_says_how_to_look(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    tree.put("sys/kernel/debug/lru_gen", "memcg     1 /\n node     0\n          1 9 9 0 ")
    text = "\n".join(checked(histogram(Stepping(tree), None), Stepping(tree)))
    assert "tierctl heat --look" in text


class Aging(Stepping):
    """A machine that notes what is written to lru_gen."""

    def __init__(self, tree: Tree, code: int = 0) -> None:
        super().__init__(tree)
        self.code = code
        self.asked: list[tuple[float, str]] = []

    def write(self, path: str, text: str) -> None:
        """Take an order to MGLRU, or refuse it."""
        assert path == LRU_GEN
        self.asked.append((self.now - 1_796_000_000.0, text))
        if self.code:
            raise OSError(self.code, "no", path)


TWO = """memcg     1 /
 node     0
          7      90000        500         10
          8        500          5          1
 node     2
          3      90000        500         10
memcg    12 /a b
 node     2
          5      90000        500         10
memcg     0 /a b
 node     2
          4      90000        500         10
memcg    13 /a b2
 node     2
          6      90000        500         10"""


def test_look_at_a_group_makes_its_nodes_age_twice(tmp_path: Path) -> None:
    tree = build(tmp_path, replace(OURS, groups=0))
    tree.put("sys/kernel/debug/lru_gen", TWO)
    found = Aging(tree)
    lru.look(found, None, 5)
    orders = ["+ 1 0 8 1 1\n", "+ 1 2 3 1 1\n", "+ 12 2 5 1 1\n", "+ 13 2 6 1 1\n"]
    assert found.asked == [*((0, one) for one in orders), *((5, one) for one in orders)]
    found.asked.clear()
    lru.look(found, "/a b", 5)
    assert [text for _, text in found.asked] == ["+ 12 2 5 1 1\n"] * 2


def test_look_of_ours_is_noted_so_that_ages_are_known(tmp_path: Path) -> None:
    tree = build(tmp_path, replace(STOCK, swap_free=0, looked_s=1.0))
    found = Aging(tree)
    before = histogram(found, None).data
    heat.look(found, None, 8)
    after = histogram(found, None).data
    assert (tmp_path / LOOKED[1:]).read_text() == "1796000008.000 1796000008.000 "
    cool = [next(row.slow for row in data.rows if row.use == "cool") for data in (before, after)]
    assert 0 < cool[0] < cool[1] and after.looked_s == 1.0


def test_looks_of_ours_at_one_group_after_the_other_are_all_noted(tmp_path: Path) -> None:
    found = Aging(build(tmp_path, STOCK))
    for name in ("service0000.service", "service0004.service"):
        heat.look(found, name, 1)
    noted = (tmp_path / LOOKED[1:]).read_text().splitlines()
    assert [line.rpartition("/")[2] for line in noted] == [
        "service0000.service",
        "service0004.service",
    ]
    for _ in range(lru.LOOKS):
        heat.look(found, None, 1)
    noted = (tmp_path / LOOKED[1:]).read_text().splitlines()
    assert len(noted) == lru.LOOKS and not any("service" in line for line in noted)


def test_look_goes_on_if_a_group_ends_and_says_what_refuses(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    ended = Aging(tree, errno.EINVAL)
    heat.look(ended, None, 1)
    assert len(ended.asked) > 2
    with pytest.raises(TierctlError, match="lru_gen cannot be used") as error:
        heat.look(Aging(tree, errno.EPERM), None, 1)
    assert error.value.code == DENIED


def test_look_at_a_bundle_is_refused(tmp_path: Path) -> None:
    live = Stepping(build(tmp_path / "root", OURS))
    archive.save(tmp_path / "b", capture.record(live, 1, 1.0).samples, "h", "k")
    with pytest.raises(TierctlError, match="leave out --look"):
        heat.look(Bundle(str(tmp_path / "b")), None, 1)


@pytest.mark.parametrize(
    ("spec", "what", "code"),
    [
        (replace(OURS, mglru="0x0006"), "the age of pages is not known (MGLRU is off)", LACKING),
        (OLD, "the age of pages is not known (absent", LACKING),
    ],
)
def test_machine_without_generations_is_lacking(
    tmp_path: Path, spec: Spec, what: str, code: int
) -> None:
    with pytest.raises(TierctlError) as found:
        histogram(Stepping(build(tmp_path, spec)), None)
    assert found.value.what.startswith(what) and found.value.code == code


def test_user_is_told_to_be_root(tmp_path: Path) -> None:
    found = Stepping(build(tmp_path, OURS))
    found.denied = ("/sys/kernel/debug",)
    with pytest.raises(TierctlError, match=r"age of pages is not known \(denied") as error:
        histogram(found, None)
    assert error.value.code == DENIED


def test_bundle_has_the_same_heat(tmp_path: Path) -> None:
    live = Stepping(build(tmp_path / "root", OURS))
    archive.save(tmp_path / "b", capture.record(live, 1, 1.0).samples, "h", "k")
    assert histogram(Bundle(str(tmp_path / "b")), None).data == histogram(live, None).data


# --- command line ----------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["heat"],
        ["heat", GROUP],
        ["heat", "--map", str(PID), "--rows", "2", "--interval", "0.05"],
        ["explain", str(PID), "--seconds", "0"],
        ["explain", GROUP, "--seconds", "1"],
        ["explain", "node", "1", "--seconds", "0"],
        ["forecast"],
    ],
)
@pytest.mark.parametrize("spec", [SMALL, replace(STOCK, nodes=SMALL.nodes)])
def test_command_prints_text_and_json(
    tmp_path: Path, spec: Spec, words: list[str], capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    machine(tmp_path, spec)
    code = cli.main(["--root", str(tmp_path), *words])
    out, err = capsys.readouterr()
    assert err == "" and code in (0, 1) and out
    for line in out.splitlines():
        assert len(line) <= 80 and line.isascii() and line == line.rstrip()
    assert cli.main(["--root", str(tmp_path), *words, "--json"]) == code
    assert tierctl_schemas.check(json.loads(capsys.readouterr().out)) == []


@pytest.mark.parametrize(
    "words",
    [
        ["heat", "--rows", "3"],
        ["heat", "--map", "x"],
        ["heat", GROUP, "--map", "1"],
        ["explain"],
        ["explain", "1", "--seconds", "11"],
        ["explain", "node", "1", "2"],
    ],
)
def test_wrong_words_are_one_line_of_usage(
    tmp_path: Path, words: list[str], capsys: Output
) -> None:
    machine(tmp_path)
    assert cli.main(["--root", str(tmp_path), *words]) == USAGE
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("tierctl: ") and err.count("\n") == 1


def test_bundle_maps_a_process(tmp_path: Path, capsys: Output) -> None:
    found = machine(tmp_path / "root", pushed=(2048,))
    recorder = capture.record(found, 2, 10.0, [str(PID)])
    archive.save(tmp_path / "b", recorder.samples, "h", "k")
    assert cli.main(["--from", str(tmp_path / "b"), "heat", "--map", str(PID)]) == WELL
    assert capsys.readouterr().out.count("|" + "." * 32 + "|") == 2


def test_bundle_without_what_explain_reads_says_so(tmp_path: Path, capsys: Output) -> None:
    found = machine(tmp_path / "root")
    archive.save(tmp_path / "b", capture.record(found, 2, 10.0).samples, "h", "k")
    capsys.readouterr()
    assert cli.main(["--from", str(tmp_path / "b"), "explain", str(PID)]) == USAGE
    assert f"capture again with --explain {PID}" in capsys.readouterr().err
