# SPDX-License-Identifier: GPL-2.0
"""What tierctl brings agrees with the rooms, and its schemas agree with its answers."""

from __future__ import annotations

import ast
import functools
import json
import re
import sys

import pytest
import tierctl_schemas
from tierctl_trees import TIER

from lab import cache, declared, manifest, rooms
from tierctl.core import texts
from tierctl.model.status import Tiering
from tierctl.read import threads as cost

PACKAGE = cache.PROJECT / "tierctl"
REASON = re.compile(r'(?:\*reason\s*=|reason \?:|PART_WAITING,)\s*((?:"[^"]*"\s*)+)')
SOURCES = {
    f"{room.name}/{name}": path.read_text(errors="replace")
    for room in rooms.series()
    for name, path in room.files.items()
    if name.endswith(".c") and not name.startswith("tools/")
}


def test_declared_json_is_fresh() -> None:
    found = (PACKAGE / "declared.json").read_text("utf-8")
    assert found == declared.tierctl_json(), "python -m lab declared --write"
    assert declared.documents()[declared.TIERCTL] == found


def test_declared_json_has_all_that_the_rooms_declare() -> None:
    found = json.loads(declared.tierctl_json())
    assert [one["file"] for one in found["knobs"]] == [one.file for one in manifest.knobs()]
    assert [one["file"] for one in found["switches"]] == [one.file for one in manifest.switches()]
    assert [one["name"] for one in found["events"]] == [one.name for one in manifest.events()]
    names = [one.name for each in manifest.load().values() for one in each.counters]
    assert [one["name"] for one in found["counters"]] == names
    assert all("  " not in one["text"] for one in found["knobs"])


def test_each_reason_of_the_kernel_has_advice() -> None:
    found = {
        "".join(re.findall(r'"([^"]*)"', literal))
        for text_ in SOURCES.values()
        for literal in REASON.findall(text_)
    } - {""}
    assert len(found) >= 7
    assert found == set(texts.load()["reasons"])
    for advice in texts.load()["reasons"].values():  # a command has a line of its own
        assert all(not one.startswith(("tierctl ", "echo ")) for one in advice.split("\n")[:1])
        assert not re.search(r"\w/enabled|: (tierctl|echo|modprobe) ", advice)
    assert "tier.rst" in texts.advice("something new") and "tier.rst" in texts.advice(None)


def test_counters_that_tierctl_asks_for_exist() -> None:
    known = {one.name for each in manifest.load().values() for one in each.counters}
    known |= {one.name for one in manifest.events()}
    asked: set[str] = set()
    for file in PACKAGE.rglob("*.py"):
        asked |= set(
            re.findall(r'"(tier_(?:promote|demote|scan|defer)_\w+[a-z])"', file.read_text())
        )
    assert asked and asked <= known


def test_threads_that_tierctl_looks_for_are_those_of_the_rooms() -> None:
    for name in manifest.threads():
        assert any(name.startswith(prefix) for prefix in cost.KINDS)


def test_parts_that_tierctl_names_exist() -> None:
    parts = {one.file.split("/")[-2] for one in manifest.switches()}
    named: set[str] = set()
    for file in PACKAGE.rglob("*.py"):
        named |= set(re.findall(r'(?:works|\bpart)\("(\w+)"\)', file.read_text()))
    assert {"scan", "promote", "demote", "age", "defer"} <= named <= parts
    assert all(one.file.startswith(f"/{TIER}/") for one in manifest.switches())


def test_schemas_are_fresh() -> None:
    found = tierctl_schemas.documents()
    for path, wanted in found.items():
        assert path.read_text("utf-8") == wanted, "PYTHONPATH=. python3 tests/tierctl_schemas.py"
    assert set(tierctl_schemas.SCHEMAS.glob("*.json")) == set(found)


def test_validator_finds_what_is_wrong() -> None:
    rule = tierctl_schemas.of_type(Tiering)
    good = {
        "on": None,
        "by": ["promote"],
        "state": None,
        "numa_balancing": 2,
        "demotion": True,
        "parts": {"scan": "on"},
    }
    assert tierctl_schemas.errors(good, rule) == []
    for change in ({"on": 1}, {"by": [1]}, {"parts": {"scan": 1}}, {"more": 1}, {"by": None}):
        assert tierctl_schemas.errors(good | change, rule) != []
    assert tierctl_schemas.errors({}, rule) == [f"$ lacks {name}" for name in good]


# --- the package -------------------------------------------------------------------


@functools.cache
def imports() -> dict[str, set[str]]:
    """What each module of the package imports, inside functions as well."""
    found: dict[str, set[str]] = {}
    for file in PACKAGE.rglob("*.py"):
        module = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
        names = found.setdefault(module.removesuffix(".__init__"), set())
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names |= {one.name for one in node.names}
            elif isinstance(node, ast.ImportFrom):
                names |= {f"{node.module}.{one.name}" for one in node.names}
    return found


LIBRARIES = {"export": {"prometheus_client"}}  # by sub-package
BRANCHES = ("change", "checks", "explain", "record", "export", "report")
LAYERS = ({"core"}, {"read"}, {"model"}, set(BRANCHES), {"commands"}, {"watch"})
BESIDE = {("checks", "change"), ("checks", "explain"), ("report", "record")}  # branch to branch
# Commands that show the same: the first may import the second.
COMMANDS = {("status", "doctor"), ("profile", "rows"), ("set", "rows")}


def layer(package: str) -> int:
    """The number of a sub-package; it may import those with smaller ones."""
    return next(at for at, names in enumerate(LAYERS) if package in names)


def allowed(importer: str, imported: str) -> bool:
    """A module of tierctl may import another one."""
    mine, its = (name.split(".")[1:] for name in (importer, imported))
    if len(mine) == 1:
        return True  # cli and __main__ start commands
    if its[0] not in set().union(*LAYERS):
        return its == ["__version__"]
    if mine[0] == "commands" == its[0]:
        return mine[1] in ("capture", "watch") or (mine[1], its[1]) in COMMANDS
    if mine == ["commands", "watch"] and its[0] == "watch":
        return True
    return mine[0] == its[0] or layer(its[0]) < layer(mine[0]) or (mine[0], its[0]) in BESIDE


def test_package_imports_the_standard_library_and_itself_only() -> None:
    for name, names in imports().items():
        libraries = LIBRARIES.get(name.split(".")[1] if "." in name else "", set())
        for top in {one.partition(".")[0] for one in names}:
            assert top == "tierctl" or top in sys.stdlib_module_names | libraries, (name, top)


def test_sub_packages_import_what_is_below_them_only() -> None:
    modules = imports()
    wrong = [
        f"{name} imports {one}"
        for name, names in modules.items()
        for one in sorted(names)
        if one.startswith("tierctl.") and not allowed(name, one)
    ]
    assert wrong == []
    for mine, its in COMMANDS:  # an exception that is not needed goes
        assert any(f"commands.{its}" in one for one in modules[f"tierctl.commands.{mine}"])
    assert {name.split(".")[1] for name in modules if name.count(".") > 1} == set().union(*LAYERS)


@pytest.mark.parametrize(
    ("importer", "imported", "good"),
    [
        ("read.lru", "core.text", True),
        ("core.text", "read.lru", False),
        ("checks.moves", "change.current", True),
        ("change.current", "checks.moves", False),
        ("export.serve", "record.ring", False),
        ("model.status", "checks.check", False),
        ("commands.top", "commands.heat", False),
        ("commands.status", "watch.screen", False),
        ("commands.watch", "watch.screen", True),
        ("watch.screen", "commands.status", True),
        ("core.reply", "cli", False),
    ],
)
def test_rule_of_imports_finds_what_is_wrong(importer: str, imported: str, good: bool) -> None:
    assert allowed(f"tierctl.{importer}", f"tierctl.{imported}") == good


def test_files_are_small_and_have_a_docstring() -> None:
    for file in PACKAGE.rglob("*.py"):
        source = file.read_text()
        assert source.startswith("# SPDX-License-Identifier: GPL-2.0\n"), file.name
        lines = source.count("\n")
        assert lines <= 400 and (lines == 1 or ast.get_docstring(ast.parse(source))), file.name
