# SPDX-License-Identifier: GPL-2.0
"""What the rooms say about themselves: each mistake is refused, and nothing is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import instruments, kconfig, manifest, rooms
from lab.errors import LabError
from lab.rooms import Room

HOOK = "--- a/mm/rmap.c\n+++ b/mm/rmap.c\n@@ -1,1 +1,1 @@\n-a\n+b\n"
GOOD = """# SPDX-License-Identifier: GPL-2.0
title = "a thing"
state = "works"
depends = ["below"]
kconfig = ["CONFIG_THING=y", "CONFIG_THING_MAX=64", 'CONFIG_THING_NAME="a b"']
kconfig_torture = ["CONFIG_THING_DEBUG=y"]
kconfig_debug = ["CONFIG_THING_KUNIT_TEST=y"]
objects = ["mm/thing/", "mm/rmap.o"]
threads = ["kthing"]
selftests = "thing"
models = "migrc"
modules = ["kvm-amd"]
[kinds]
scan = ["thing_thread"]
[[switch]]
file = "/sys/kernel/mm/tier/thing/enabled"
on = "1"
off = "0"
wish = false
[[knob]]
file = "thing/period_ms"
default = 500
min = 100
max = 60000
unit = "ms"
text = "How long a thing waits."
advice = "things are late (lower)"
[[knob]]
file = "thing/share"
default = "max(5, 250 / CPUs)"
min = 1
max = 1000
text = "How much a thing may take."
[[counter]]
name = "tier_thing_done"
text = "things that were done"
[[event]]
name = "tier_thing"
text = "a thing was done"
fields = ["nid"]
[[fault]]
name = "thing_rule"
text = "things are done twice"
tests = [
    { program = "thing/thing_test", args = "twice", with = ["a_b"], says = 'done \\d+ times' },
    { elsewhere = "test_thing.py::test_twice" },
]
[[commit]]
subject = "mm: add a thing"
text = "Because."
files = ["mm/thing/thing.c"]
later = "what another version of the lab knows"
"""
SMALL = 'title = "what is below"\nstate = "seam"\n'


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A linux/ with the rooms below and thing."""
    monkeypatch.setattr(rooms, "LINUX", tmp_path)
    (tmp_path / "series").write_text("below\nthing\n", encoding="utf-8")
    for name in ("mm/thing/thing.c", "tools/testing/selftests/thing/thing_test.c"):
        path = tmp_path / "thing/files" / name
        path.parent.mkdir(parents=True)
        path.write_text("\n", encoding="utf-8")
    (tmp_path / "thing/hooks").mkdir()
    (tmp_path / "thing/hooks/0001-x.patch").write_text(HOOK, encoding="utf-8")
    (tmp_path / "below").mkdir()
    (tmp_path / "below/room.toml").write_text(SMALL, encoding="utf-8")
    (tmp_path / "thing/room.toml").write_text(GOOD, encoding="utf-8")
    return tmp_path


def test_a_good_manifest(house: Path) -> None:
    thing = manifest.load()["thing"]
    assert (thing.state, thing.depends, thing.modules) == ("works", ("below",), ("kvm-amd",))
    (switch,) = thing.switches
    assert (switch.file, switch.on, switch.off) == ("/sys/kernel/mm/tier/thing/enabled", "1", "0")
    assert not switch.wish and switch.toggle
    assert thing.commits[0].files == ("mm/thing/thing.c",)
    assert thing.options(["kconfig", "kconfig_debug"]) == {
        "CONFIG_THING": "y",
        "CONFIG_THING_MAX": "64",
        "CONFIG_THING_NAME": '"a b"',
        "CONFIG_THING_KUNIT_TEST": "y",
    }
    assert [knob.at_boot(cpus=4) for knob in manifest.knobs()] == [500, 62]
    assert [knob.at_boot(cpus=128) for knob in manifest.knobs()] == [500, 5]
    assert manifest.counters() == ["tier_thing_done$"]
    assert [event.fields for event in manifest.events()] == [("nid",)]
    (fault,) = manifest.faults()
    assert [test.also for test in fault.tests] == [("a_b",), ()]
    assert fault.tests[0].says == r"done \d+ times" and not fault.tests[0].long
    assert manifest.objects() == ["mm/thing/", "mm/rmap.o"]
    assert manifest.objects(own=True) == ["mm/thing/"]
    assert manifest.selftest_directories() == ["thing"]
    assert [path.name for path in manifest.model_directories()] == ["migrc"]
    assert kconfig.fragments("torture")["rooms"].endswith("CONFIG_THING_DEBUG=y\n")
    assert [[room.name for room in one] for one in manifest.closed_subsets()] == [
        [],
        ["below"],
        ["below", "thing"],
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('state = "works"', 'state = "work"'), r"state: Invalid enum value 'work'"),
        (('state = "works"\n', ""), r"missing required field `state`"),
        (('title = "a thing"\n', ""), r"missing required field `title`"),
        (('"a thing"', '"a\\nthing"'), r"title: Expected `str` matching"),
        (("threads", "thread"), r"unknown field `thread`.*keys are title, state, depends"),
        (('["below"]', '"below"'), r"depends: Expected `array`, got `str`"),
        (('["below"]', "[1]"), r"depends\[0\]: Expected `str`, got `int`"),
        (("CONFIG_THING=y", "THING=y"), r"kconfig\[0\]: Expected `str` matching"),
        (("CONFIG_THING_DEBUG=y", "CONFIG_THING_DEBUG"), r"kconfig_torture\[0\]: Expected"),
        (('"mm/thing/"', '"mm/thing.c"'), r"objects\[0\]: Expected `str` matching"),
        (('file = "/sys', 'file = "/dev'), r"switch\[0\]\.file: Expected `str` matching"),
        (('off = "0"', "off = 0"), r"switch\[0\]\.off: Expected `str`, got `int`"),
        (('off = "0"\n', ""), r"switch\[0\]: Object missing required field `off`"),
        (('off = "0"', 'of = "0"'), r"unknown field `of`.*of a switch file, on, off, toggle"),
        (('scan = ["thing_thread"]', 'scan = "thing_thread"'), r"kinds\[\.\.\.\]: Expected"),
        (("thing_thread", "thing()"), r"kinds\[\.\.\.\]\[0\]: Expected `str` matching"),
        (('subject = "mm: add a thing"\n', ""), r"commit\[0\]: .* `subject`"),
        (('state = "works"', 'state = "works'), r".*fix the TOML syntax"),
        (('title = "a', 'title = "\udcff'), r".*fix the TOML syntax"),
        (('["below"]', '["bellow"]'), r"depends: there is no room 'bellow'.*are below, thing"),
        (('["below"]', '["thing"]'), r"depends: the room depends on itself"),
        (('"mm/thing/"', '"mm/things/"'), r"objects: .*of 'mm/things/'.*name an object"),
        (('"mm/rmap.o"', '"mm/ksm.o"'), r"objects: the room neither adds nor changes"),
        (("default = 500", "default = 50"), r"knob: thing/period_ms: the range is wrong.*order"),
        (("min = 100\n", ""), r"knob\[0\]: .*missing required field `min`"),
        (("250 / CPUs", "250 * CPUs"), r"knob\[1\]\.default: "),
        (('"thing/period_ms"', '"period_ms"'), r"knob\[0\]\.file: Expected `str` matching"),
        (('"tier_thing_done"', '"thing_done"'), r"counter\[0\]\.name: Expected `str` matching"),
        (('fields = ["nid"]\n', ""), r"event\[0\]: .*missing required field `fields`"),
        (('"thing_rule"', '"rule"'), r"fault\[0\]\.name: Expected `str` matching"),
        (("thing/thing_test", "thing_test"), r"fault\[0\]\.tests\[0\]\.program: Expected"),
        (('args = "twice", ', ""), r"fault: thing_rule: .*program, args and says, or elsewhere"),
        (("{ elsewhere", "{ long = true, elsewhere"), r"fault: thing_rule: .*no other key"),
        (("done \\d+", "done (\\d+"), r"fault: 'done \(.*regular expression"),
        (("with = [", "also = ["), r"unknown field `also`.*its tests program, args, says, with"),
        (('["kthing"]', '["kthing["]'), r"threads: 'kthing\[': .*regular expression"),
        (('selftests = "thing"', 'selftests = "mm"'), r"selftests: files/ has no tools/.*/mm/"),
        (('models = "migrc"', 'models = "thing"'), r"models: there is no models/thing"),
    ],
)
def test_mistakes_are_named(house: Path, change: tuple[str, str], words: str) -> None:
    assert GOOD.count(change[0]) == 1
    text = GOOD.replace(*change).encode("utf-8", errors="surrogateescape")
    (house / "thing/room.toml").write_bytes(text)
    with pytest.raises(LabError, match=rf"(?s)linux/thing/room\.toml: .*{words}") as caught:
        manifest.load()
    assert caught.value.todo


def test_dependencies_come_first(house: Path) -> None:
    (house / "series").write_text("thing\nbelow\n", encoding="utf-8")
    with pytest.raises(LabError, match=r"(?s)'below' comes later.*put below above thing") as caught:
        manifest.load()
    assert "linux/thing/room.toml: depends" in caught.value.what


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ('[[switch]]\nfile = "/sys/kernel/mm/tier/thing/enabled"\non = "1"\noff = "0"', "/sys/.*"),
        ('[[counter]]\nname = "tier_thing_done"\ntext = "x"', "tier_thing_done"),
        ('[[event]]\nname = "tier_thing"\ntext = "x"\nfields = []', "event tier_thing"),
        ('[[fault]]\nname = "thing_rule"\ntext = "x"', "fault thing_rule"),
    ],
)
def test_a_name_is_declared_once(house: Path, table: str, name: str) -> None:
    (house / "below/room.toml").write_text(SMALL + table + "\n", encoding="utf-8")
    with pytest.raises(LabError, match=rf"(?s)thing/room\.toml: {name} is declared twice.*below"):
        manifest.load()


def test_a_choice_without_what_it_depends_on_is_refused(house: Path) -> None:
    with pytest.raises(LabError, match="there is no room 'below'"):
        manifest.load([Room("thing", house / "thing")])


def test_a_room_without_a_manifest_is_refused(house: Path) -> None:
    (house / "below/room.toml").unlink()
    with pytest.raises(LabError, match=r"linux/below/room\.toml: there is no such file") as caught:
        manifest.load()
    assert "title and state" in caught.value.todo


def test_rooms_must_agree_on_an_option(house: Path) -> None:
    (house / "below/room.toml").write_text(SMALL + 'kconfig = ["CONFIG_THING=n"]\n')
    with pytest.raises(LabError, match=r"thing/room\.toml: kconfig: CONFIG_THING=y, but another"):
        kconfig.fragments("tiershift")
    assert kconfig.fragments("base").keys() == {"common", "bench"}


def test_unknown_kinds_of_work_are_refused(house: Path) -> None:
    (house / "thing/room.toml").write_text(GOOD.replace("scan = [", "skan = ["))
    with pytest.raises(LabError, match=r"(?s)thing/room\.toml: kinds: .*'skan'.*: other, scan"):
        instruments.all_kinds()


def test_pages_without_a_table_are_refused(house: Path) -> None:
    with pytest.raises(LabError, match="no table of rooms"):
        manifest.with_table("# Page\n")
    page = f"# Page\n{manifest.TABLE_BEGIN}old\n{manifest.TABLE_END}\nmore\n"
    assert manifest.with_table(page) == page.replace(
        "old\n",
        "| room | state | what |\n|---|---|---|\n| `linux/below` | seam | what is below |\n"
        "| `linux/thing` | works | a thing |\n",
    )


@pytest.mark.parametrize("room", rooms.series(), ids=lambda room: room.name)
def test_objects_are_all_that_a_room_changes(room: Room) -> None:
    """A study that looks at them must not miss a change."""
    named = manifest.read(room).objects
    touched = {*room.files, *(name for hook in room.hooks for name in rooms.touched(hook))}
    missed = [
        name
        for name in sorted(touched)
        if name.endswith(".c")
        and not name.startswith("tools/")
        and not any(name == one.removesuffix("o") + "c" for one in named)
        and not any(one.endswith("/") and name.startswith(one) for one in named)
    ]
    assert not missed, f"add these to objects in linux/{room.name}/room.toml, as .o: {missed}"
