# SPDX-License-Identifier: GPL-2.0
"""A process by address: tierctl heat --map, and the mapper of records."""

from __future__ import annotations

import itertools
from array import array
from pathlib import Path

import pytest
import tierctl_schemas
from tierctl_process import FIRST_SLOW, PID, SMALL, machine
from tierctl_trees import Stepping, Tree

from tierctl.commands import heat
from tierctl.core import reply
from tierctl.core.errors import DENIED, USAGE, TierctlError
from tierctl.core.paths import KDAMONDS
from tierctl.core.reply import Reply
from tierctl.core.text import Style
from tierctl.model import addressmap
from tierctl.model.addressmap import AddressMap, Mapper
from tierctl.read import nodes

PAGE = 4096


def checked(got: Reply, found: Stepping) -> list[str]:
    """The text of an answer that agrees with its schema."""
    assert tierctl_schemas.check(reply.document(got, found)) == []
    lines = heat.draw_map(got, Style())
    assert max(map(len, lines)) <= 80 and all(line.isascii() for line in lines)
    return lines


def move(tree: Tree, places: int) -> None:
    """So many places of 32 go to node 0."""
    entries = array("Q")
    for place in range(32):
        base = 4096 if place < places else FIRST_SLOW
        entries.extend((1 << 63) | (base + 512 * place + i) for i in range(512))
    (tree.root / f"proc/{PID}/pagemap").write_bytes(entries.tobytes())


def test_map_shows_where_pages_go(tmp_path: Path) -> None:
    found = machine(tmp_path)
    found.step = lambda second: move(found.tree, 8 * second)
    got = heat.by_address(found, PID, 3, 1.0)
    lines = checked(got, found)
    assert [line[13:-1] for line in lines[3:6]] == [
        "." * 32,
        "#" * 8 + "." * 24,
        "#" * 16 + "." * 16,
    ]
    assert lines[0] == "redis 5002: time against address"
    assert lines[1] == "1 character = 2.0M of addresses; 0 holes cut out"
    assert [row.time_s for row in got.data.rows] == [0, 1, 2]


def test_map_cuts_holes_out_and_names_addresses(tmp_path: Path) -> None:
    found = machine(tmp_path)
    tail = "rw-p 00000000 00:00 0"
    low, high = f"00000000-02000000 {tail}", f"7f0000000000-7f0002000000 {tail}"
    found.tree.put(f"proc/{PID}/maps", f"{low}\n{high}")
    entries = (tmp_path / f"proc/{PID}/pagemap").read_bytes()[: 16 * PAGE]
    with open(tmp_path / f"proc/{PID}/pagemap", "r+b") as file:
        file.seek((0x7F0000000000 >> 12) * 8)
        file.write(entries)
    got = heat.by_address(found, PID, 1, 1.0)
    lines = checked(got, found)
    assert got.data.holes == 1 and len(got.data.columns) == 32 and "." * 32 in lines[3]
    assert lines[6].strip() == "to 7f0002000000"


def test_map_of_many_places_reads_at_most_some_for_a_line(tmp_path: Path) -> None:
    found = machine(tmp_path, mib=1024)
    got = heat.by_address(found, PID, 1, 1.0)
    assert found.reads[f"/proc/{PID}/pagemap"] == addressmap.PLACES
    data: AddressMap = got.data
    assert (len(data.columns), data.places, data.place_bytes) == (64, 512, 2 << 20)
    ends = [(one.begin, one.end) for one in data.columns]
    assert ends[0][0] == 0 and ends[-1][1] == 1 << 30
    assert all(one[1] == two[0] for one, two in itertools.pairwise(ends))
    assert len(checked(got, found)[3]) == 12 + 2 + 64


def test_map_has_blanks_where_no_page_is(tmp_path: Path) -> None:
    found = machine(tmp_path)
    (tmp_path / f"proc/{PID}/pagemap").write_bytes(bytes(8 * 512 * 16))
    got = heat.by_address(found, PID, 1, 1.0)
    assert got.data.rows[0].cells == [None] * 32 and "|" + " " * 32 + "|" in checked(got, found)[3]


def test_map_of_a_process_that_ends_keeps_its_lines(tmp_path: Path) -> None:
    found = machine(tmp_path)
    found.step = lambda second: (tmp_path / f"proc/{PID}/stat").unlink()
    got = heat.by_address(found, PID, 5, 1.0)
    assert len(got.data.rows) == 1
    assert got.sources["cells"].state == f"process {PID} has ended"
    assert checked(got, found)[-1].strip() == f"? cells: process {PID} has ended"


def test_ctrl_c_ends_a_map_early(tmp_path: Path) -> None:
    found = machine(tmp_path)

    def interrupt(second: int) -> None:
        raise KeyboardInterrupt

    found.step = interrupt
    assert len(heat.by_address(found, PID, 5, 1.0).data.rows) == 1


@pytest.mark.parametrize(
    ("pid", "path", "code", "what"),
    [
        (77, "", USAGE, "there is no process 77"),
        (PID, "maps", DENIED, "root"),
        (PID, "pagemap", DENIED, "root"),
    ],
)
def test_map_that_cannot_be_made_says_why(
    tmp_path: Path, pid: int, path: str, code: int, what: str
) -> None:
    found = machine(tmp_path)
    found.denied = (f"/proc/{PID}/{path}",) if path else ()
    with pytest.raises(TierctlError, match=what) as error:
        heat.by_address(found, pid, 1, 1.0)
    assert error.value.code == code


def test_map_writes_to_no_kdamond(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = machine(tmp_path)
    base = f"{KDAMONDS[1:]}/0"
    context = f"{base}/contexts/0"
    found.tree.put(f"{base}/state", "on")
    found.tree.put(f"{context}/operations", "vaddr")
    found.tree.put(f"{context}/targets/nr_targets", 1)
    found.tree.put(f"{context}/targets/0/pid_target", PID)
    monkeypatch.setattr(found, "write", None)  # it belongs to another tool
    assert heat.by_address(found, PID, 1, 1.0).data.rows


# --- mapper ----------------------------------------------------------------------


def test_mapper_looks_at_the_same_columns_again(tmp_path: Path) -> None:
    found = machine(tmp_path)
    mapper = Mapper(found, PID, columns=4)
    tiers = nodes.read(found)
    assert mapper.map is None
    assert mapper.take(tiers) == [1.0] * 4
    first = mapper.map
    move(found.tree, 16)
    assert mapper.take(tiers) == [0.0, 0.0, 1.0, 1.0] and mapper.map is first
    assert first and (first.name, first.places, first.place_bytes) == ("redis", 32, 2 << 20)


def test_pid_that_is_used_again_is_another_process(tmp_path: Path) -> None:
    found = machine(tmp_path)
    mapper = Mapper(found, PID)
    tiers = nodes.read(found)
    mapper.take(tiers)
    found.tree.change(f"proc/{PID}/stat", " 5 0 0", " 6 0 0")
    with pytest.raises(TierctlError, match=f"process {PID} has ended"):
        mapper.take(tiers)


def test_mapper_without_tiers_refuses(tmp_path: Path) -> None:
    found = machine(tmp_path)
    tiers = nodes.read(found)
    tiers.tiers = None
    with pytest.raises(TierctlError, match="which nodes are slow is not known"):
        Mapper(found, PID).take(tiers)


def test_process_without_memory_and_hidden_frames_are_refused(tmp_path: Path) -> None:
    found = machine(tmp_path, SMALL)
    (tmp_path / f"proc/{PID}/pagemap").write_bytes(array("Q", [1 << 63] * 512 * 32).tobytes())
    with pytest.raises(TierctlError, match="hides frame numbers") as error:
        heat.by_address(found, PID, 1, 1.0)
    assert error.value.code == DENIED
    found.tree.put(f"proc/{PID}/maps", "")
    with pytest.raises(TierctlError, match="has no memory of its own"):
        heat.by_address(found, PID, 1, 1.0)
