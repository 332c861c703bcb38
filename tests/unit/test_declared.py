# SPDX-License-Identifier: GPL-2.0
"""What the rooms declare, what their code has, and the documents: all three are the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import declared, manifest, rooms, tier
from lab.errors import LabError
from lab.manifest import Counter, Event, Fault, Knob, Manifest, Switch
from lab.rooms import Room

ROOMS = rooms.series()
MANIFESTS = manifest.load()
each_room = pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)


# --- documents -------------------------------------------------------------------


def test_documents_are_up_to_date() -> None:
    assert declared.stale() == [], "python -m lab declared --write"


KNOBS = (
    Knob("scan/period_ms", 500, 100, 60000, "How long.  " + 9 * "A period is long. ", "ms", "slow"),
    Knob("scan/share", "max(5, 250 / CPUs)", 1, 1000, "A share."),
    Knob("scan/cache", 1, 0, 1, "1: reads count.  0: they do not."),
)
MADE = Manifest(
    "title",
    "works",
    switches=(Switch("/sys/kernel/mm/tier/scan/enabled", "1", "0", wish=False, text="it scans"),),
    knobs=KNOBS,
    counters=(Counter("tier_scan_mm", "visits", "wait"), Counter("tier_x", "n", gauge=True)),
    events=(Event("tier_scan_pass", "a visit", ("pid", "cost")),),
)


def test_abi_file() -> None:
    text = declared.abi(KNOBS)
    assert text.count("What:\t\t/sys/kernel/mm/tier/scan/") == 3
    assert "Description:\tHow long.  A period" in text
    assert "\t\tIn ms, 100 to 60000.  Default: 500.  Other values" in text
    assert "\t\t0 or 1.  Default: 1." in text
    words = " ".join(text.split())
    assert "Default: the larger of 5 and 250 / CPUs, with the CPUs that are online" in words
    assert all(len(line.expandtabs(8)) <= 80 for line in text.splitlines())
    assert text.startswith("# SPDX") and text.endswith("change\n\t\tnothing.\n")


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> str:
    """A page with a marker for each kind."""
    monkeypatch.setattr(manifest, "load", lambda: {"one": MADE, "other": Manifest("b", "seam")})
    return "".join(
        f"# {kind}\n{declared.BEGIN.format(kind)}old\n{declared.END}\n" for kind in declared.TABLES
    )


def test_tables_of_a_page(page: str) -> None:
    text = declared.with_tables(page)
    assert "old" not in text and text.count(declared.END) == 4
    assert "| `scan/period_ms` | 500 | 100 to 60000 ms | slow |\n" in text
    assert "| `scan/share` | max(5, 250 / CPUs) | 1 to 1000 | - |\n" in text
    assert "| `scan/cache` | 1 | 0, 1 | - |\n" in text
    assert "| `scan/enabled` | 0 | it scans |\n" in text
    assert "| `tier_scan_mm` | visits | wait |\n| `tier_x` (a level) | n | - |\n" in text
    assert "| `tier_scan_pass` | a visit | `pid`, `cost` |\n" in text
    assert "| event | it means | fields |\n|---|---|---|\n" in text
    assert declared.with_tables(text) == text


def test_a_page_without_tables_stays(page: str) -> None:
    assert declared.with_tables("# Page\n") == "# Page\n"
    with pytest.raises(LabError, match=r"a table of knobs has no end"):
        declared.with_tables(page.replace(declared.END, ""))


def test_a_table_that_no_page_has_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared, "PAGES", ())
    with pytest.raises(LabError, match="no page has a table of knobs"):
        declared.documents()


def test_each_table_is_on_one_page() -> None:
    text = "".join(page.read_text() for page in declared.PAGES)
    assert {kind: text.count(declared.BEGIN.format(kind)) for kind in declared.TABLES} == (
        dict.fromkeys(declared.TABLES, 1)
    )


HELP = """config ZAP_DEBUG
\tbool "Let tests break it"
\tselect TIER_FAULTS
\thelp
\t  Adds faults.

\t  If unsure, say N.

config OTHER
\tbool "Other"
"""


def _helped(text: str) -> list[tuple[str, str]]:
    """Faults in the help of options ..._DEBUG, each with what it breaks."""
    found: list[tuple[str, str]] = []
    for body in re.findall(r"^config \w+_DEBUG$(.*?)(?=^\S|\Z)", text, re.DOTALL | re.MULTILINE):
        words = re.sub(r"\n\t {3,}", " ", body)
        found += re.findall(r"^\t  ([a-z]+_\w+): (.*)$", words, re.MULTILINE)
    return found


@each_room
def test_kconfig_helps_have_the_faults(room: Room) -> None:
    texts = [path.read_text() for name, path in room.files.items() if "/Kconfig" in f"/{name}"]
    wanted = [(fault.name, fault.text) for fault in MANIFESTS[room.name].faults]
    assert [one for text in texts for one in _helped(text)] == wanted
    assert all(len(line.expandtabs(8)) <= 80 for text in texts for line in text.splitlines())


def test_help_is_made() -> None:
    lines = declared.fault_help("zap-batch")
    text = declared.with_faults(HELP, lines)
    assert text.startswith(HELP.partition("\n\t  If unsure")[0] + "\n\t  While a fault is 1:\n")
    assert text.endswith(lines[-1] + "\n\n\t  If unsure" + HELP.partition("If unsure")[2])
    assert [name for name, _ in _helped(text)] == ["zap_stat", "zap_lru", "zap_charge", "zap_free"]
    assert declared.with_faults(text, lines) == text
    # Also a fault that is gone, or comes
    assert declared.with_faults(declared.with_faults(text, lines[:1]), lines) == text
    assert declared.fault_help("demote-seam") == []


def test_faults_without_a_help_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no option"):
        declared.with_faults(HELP.replace("_DEBUG", ""), ["x_y: z"])
    monkeypatch.setattr(rooms, "LINUX", tmp_path)
    monkeypatch.setattr(
        manifest, "load", lambda: {"one": Manifest("a", "works", faults=(Fault("a_b", "c"),))}
    )
    with pytest.raises(LabError, match="linux/one has faults, and no option"):
        declared.documents()


# --- code ------------------------------------------------------------------------


def _sources(room: Room) -> dict[str, str]:
    """A room's C files, and what its hooks add to others; without selftests and comments."""
    found = {
        name: path.read_text()
        for name, path in room.files.items()
        if name.endswith((".c", ".h")) and not name.startswith("tools/")
    }
    for hook in room.hooks:
        lines = hook.read_text(errors="surrogateescape").splitlines()
        found[hook.name] = "\n".join(line[1:] for line in lines if re.match(r"\+(?!\+\+ )", line))
    return {name: re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL) for name, text in found.items()}


SOURCES = {room.name: _sources(room) for room in ROOMS}


def _all(room: Room) -> str:
    return "\n".join(SOURCES[room.name].values())


# Sizes that the declarations are about: x86-64
SIZES = {"PAGE_SIZE": 4096, "PAGE_SHIFT": 12, "SZ_1K": 1 << 10, "SZ_1G": 1 << 30}


def _number(text: str, expression: str) -> int | None:
    """What a constant expression of C is, with the constants of a room; or nothing."""
    found = expression.strip()
    for _ in range(4):
        found = re.sub(r"\b(\d+)U?L*\b", r"\1", found)
        names = {name for name in re.findall(r"[A-Za-z_]\w*", found) if name not in SIZES}
        if not names:
            break
        for name in names:
            value = re.search(rf"^#define {name}\s+(.+)$", text, re.MULTILINE)
            if not value:
                return {"true": 1, "false": 0}.get(found)
            found = re.sub(rf"\b{name}\b", f"({value[1].strip()})", found)
    plain = found.replace("/", "//")
    if not re.fullmatch(r"[\w\s()<>*/+-]+", plain):
        return None
    return int(eval(plain, {"__builtins__": {}}, dict(SIZES)))


def _block(text: str, head: str) -> str:
    """An initializer."""
    found = re.search(rf"\b{head}\s*=\s*{{(.*?)^}};", text, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""


def _parts(text: str) -> Iterator[tuple[str, bool, str]]:
    """The name of each part, its wish at first, and its attributes."""
    for body in re.findall(r"\bstruct tier_part \w+ = {(.*?)^};", text, re.DOTALL | re.MULTILINE):
        name = re.search(r'\.name\s*=\s*"(\w+)"', body)
        wish = re.search(r"\.wish\s*=\s*true", body)
        group = re.search(r"\.knobs\s*=\s*&(\w+)", body)
        assert name
        attributes = ""
        if group:
            table = re.search(
                rf"\b{group[1]}\s*=\s*{{\s*\.attrs\s*=\s*(\w+),?\s*}}", text, re.DOTALL
            )
            assert table, f"{group[1]} has no .attrs"
            attributes = _block(text, rf"{table[1]}\[\]")
            assert attributes, f"{table[1]} is not found"
        yield name[1], wish is not None, attributes


def _default(text: str, value: str) -> int | str | None:
    """What a variable begins with."""
    name = value.strip().lstrip("&").rpartition(".")[2]
    shared = re.search(rf"\b{name} = max\((\w+) / cpus, (\w+)\);", text)
    if shared:
        most, least = (_number(text, one) for one in shared.groups())
        return f"max({least}, {most} / CPUs)"
    first = re.search(rf"(?:\.|\b[a-z]+ (?:int |bool )?){name}\s*=\s*([^;,]+)[;,]", text)
    return _number(text, first[1]) if first else None


def _knobs(text: str) -> dict[str, tuple[int | str | None, ...]]:
    """Default, minimum and maximum of the files of all parts."""
    made = {
        variable: tuple(one.strip() for one in arguments.split(","))
        for variable, arguments in re.findall(
            r"\bstruct tier_knob (\w+)\s*=\s*TIER_KNOB\(([^;]*)\);", text
        )
    }
    # Those with a function of their own take 0 and 1.
    own = dict(re.findall(r"\bstruct kobj_attribute (\w+) = __ATTR_RW\((\w+)\)", text))
    assert len(made) == len(re.findall(r"\bTIER_KNOB\(", re.sub(r"#define.*", "", text)))
    found: dict[str, tuple[int | str | None, ...]] = {}
    for part, _, attributes in _parts(text):
        for variable in re.findall(r"&(\w+)\.", attributes):
            if variable in made:
                name, value, low, high = made.pop(variable)
                numbers = (_number(text, low), _number(text, high))
                found[f"{part}/{name}"] = (_default(text, value), *numbers)
            else:
                wanted = re.search(r"sysfs_emit\(buf, \"%d\\n\", READ_ONCE\((\w+)\)\)", text)
                assert wanted and variable in own, f"{variable} of part {part} is unknown"
                found[f"{part}/{own[variable]}"] = (_default(text, wanted[1]), 0, 1)
    assert not made, f"no part has {made}"
    return found


@each_room
def test_knobs(room: Room) -> None:
    """Each file is declared where its code is, with the same numbers."""
    text = _all(room)
    if room.name == "tier-parts":
        return  # it has the helper
    wanted = {knob.file: (knob.default, knob.min, knob.max) for knob in MANIFESTS[room.name].knobs}
    assert _knobs(text) == wanted


@each_room
def test_switches(room: Room) -> None:
    if room.name == "tier-parts":
        return
    wanted = {
        switch.file.removeprefix(f"{tier.DIRECTORY}/"): switch.wish
        for switch in MANIFESTS[room.name].switches
    }
    assert {f"{part}/enabled": wish for part, wish, _ in _parts(_all(room))} == wanted


def test_parts_are_those_of_the_lab() -> None:
    switches = [one for room in MANIFESTS.values() for one in room.switches]
    assert {one.file: one.wish for one in switches} == {
        tier.enabled(part): wish for part, wish in tier.PARTS.items()
    }


@each_room
def test_counters(room: Room) -> None:
    """Rows are strings that end in a space, as seq_put_decimal_ull() wants them."""
    text = _all(room)
    declared_here = MANIFESTS[room.name].counters
    assert sorted(re.findall(r'"(tier_\w+) "', text)) == sorted(one.name for one in declared_here)
    levels = [one.name for one in declared_here if one.gauge]
    assert len(levels) == len(re.findall(r"^\t\.gauge\s*=", text, re.MULTILINE))


@each_room
def test_events(room: Room) -> None:
    found: dict[str, list[str]] = {}
    for text in SOURCES[room.name].values():
        events = re.findall(r"^TRACE_EVENT\((\w+),(.*?)^\);", text, re.DOTALL | re.MULTILINE)
        assert len(events) == len(re.findall(r"^(?:TRACE|DEFINE|DECLARE)_EVENT", text, re.M))
        assert not events or "#define TRACE_SYSTEM tier\n" in text
        for name, body in events:
            entry = body.partition("TP_STRUCT__entry(")[2].partition("TP_fast_assign")[0]
            found[name] = re.findall(r"__(?:field|array|string)\((?:[^(),]+, )?(\w+)[,)]", entry)
    assert found == {one.name: list(one.fields) for one in MANIFESTS[room.name].events}


def _faults(text: str) -> Iterator[str]:
    calls = re.finditer(r"\btier_faults_add\(\s*\"(\w+)\",\s*(\w+),", text)
    for call in calls:
        part, names = call.groups()
        # The array of this name that comes last before it
        arrays = list(
            re.finditer(
                rf"\bconst char \* const {names}\[[^]]*\]\s*=\s*{{(.*?)}};", text, re.DOTALL
            )
        )
        assert arrays, f"there is no array {names}"
        before = [one for one in arrays if one.start() < call.start()]
        yield from (f"{part}_{name}" for name in re.findall(r'"(\w+)"', (before or arrays)[-1][1]))


@each_room
def test_faults(room: Room) -> None:
    names = [name for text in SOURCES[room.name].values() for name in _faults(text)]
    assert sorted(names) == sorted(one.name for one in MANIFESTS[room.name].faults)


# --- would these tests notice? ---------------------------------------------------

CODE = """
#define MOST	(SZ_1G >> 10)
static unsigned int most = 512U << (PAGE_SHIFT - 10);
static bool wanted = true;
static struct tier_knob most_knob =
	TIER_KNOB(max_kb, &most, PAGE_SIZE / SZ_1K, MOST);
static ssize_t look_show(char *buf)
{
	return sysfs_emit(buf, "%d\\n", READ_ONCE(wanted));
}
static struct kobj_attribute look_attr = __ATTR_RW(look);
static struct attribute *some_attrs[] = {
	&most_knob.attr.attr,
	&look_attr.attr,
	NULL
};
static const struct attribute_group some_group = { .attrs = some_attrs };
static struct tier_part some_part = {
	.name	= "some",
	.wish	= true,
	.knobs	= &some_group,
};
"""


def test_numbers_of_code_are_read() -> None:
    assert _knobs(CODE) == {"some/max_kb": (2048, 4, 1 << 20), "some/look": (1, 0, 1)}
    assert [(name, wish) for name, wish, _ in _parts(CODE)] == [("some", True)]
    assert [wish for _, wish, _ in _parts(CODE.replace("\t.wish\t= true,\n", ""))] == [False]
    assert _knobs(CODE.replace("PAGE_SIZE / SZ_1K", "8"))["some/max_kb"] == (2048, 8, 1 << 20)


def test_knobs_that_no_part_has_are_found() -> None:
    with pytest.raises(AssertionError, match="no part has"):
        _knobs(CODE.replace("\t&most_knob.attr.attr,\n", ""))


def test_faults_of_code_are_read() -> None:
    text = 'static const char * const names[NR] = { [A] = "one", "two" };\n'
    assert list(_faults(text + 'tier_faults_add("some", names, faults, NR);')) == [
        "some_one",
        "some_two",
    ]


def test_faults_of_a_help_are_read() -> None:
    made = declared.with_faults(HELP, ["zap_lru: pages stay", "    counted", "zap_free: none is"])
    assert _helped(made) == [("zap_lru", "pages stay counted"), ("zap_free", "none is")]
    # The help lacks a fault, has a fault that no room declares, or has other words
    assert _helped(made.replace("\t  zap_free: none is\n", "")) != _helped(made)
    assert _helped(made.replace("\t  zap_free", "\t  zap_new: it\n\t  zap_free")) != _helped(made)
    assert _helped(made.replace("counted", "known")) != _helped(made)
    assert _helped(made.replace("ZAP_DEBUG", "ZAP")) == []
