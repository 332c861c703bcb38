# SPDX-License-Identifier: GPL-2.0
"""The models of MIGRC and swap-out are about the kernel's text of today.

A model names the kernel's functions that it stands for: `migrc_publish()`.  functions.toml, beside
the models, has a hash of each that a room adds, and of each hook patch into one of the base kernel.
When a text changes, a test fails until a developer has looked at the models and has run

    MODEL_TEXTS=write python -m pytest tests/unit/test_model_texts.py
"""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from pathlib import Path

import pytest

from lab import cache, manifest

LINUX = cache.PROJECT / "linux"
MODELS = manifest.MODELS / "migrc"
TABLE = MODELS / "functions.toml"
COMMAND = "MODEL_TEXTS=write python -m pytest tests/unit/test_model_texts.py"
SOURCES = (
    *("migrc/files/mm/migrc/*.[ch]", "migrc/files/include/linux/migrc.h"),
    "migrate-batch/files/mm/reclaim_batch.[ch]",
)
HOOKS = ("migrc/hooks/*.patch", "migrate-batch/hooks/*-write-swapped-out-folios-*.patch")

_FUNCTION = re.compile(r"^[a-z][\w *]*?\b(\w+)\([^;{}]*\)\n\{\n.*?^\}\n", re.MULTILINE | re.DOTALL)
_IN_HUNK = re.compile(r"^@@ .* @@ .*?\b(\w+)\(", re.MULTILINE)

Texts = dict[str, tuple[str, set[str]]]  # by name: the text, and functions that it has


def functions(name: str, text: str) -> Texts:
    """The functions of a C file."""
    return {f"{name}: {m[1]}()": (m[0], {m[1]}) for m in _FUNCTION.finditer(text)}


def hook(name: str, text: str) -> Texts:
    """A patch, without what a refresh changes: its head and the numbers of its lines."""
    changes = text[text.index("\ndiff --git ") :]
    bare = re.sub(r"^@@ -\S+ \+\S+ @@|^index .*\n", "", changes, flags=re.MULTILINE)
    return {name: (bare, set(_IN_HUNK.findall(text)))}


def today(linux: Path = LINUX) -> Texts:
    """All texts that a model may be about."""
    found: Texts = {}
    for path in sorted(path for one in SOURCES for path in linux.glob(one)):
        found |= functions(str(path.relative_to(linux)).split("/files/")[1], path.read_text())
    for path in sorted(path for one in HOOKS for path in linux.glob(one)):
        # Its number changes with those before it.
        found |= hook(f"{path.parts[-3]}: {path.stem[5:]}", path.read_text())
    return found


def table(texts: Texts, models: dict[str, str]) -> dict[str, str]:
    """Hash and models of each text that a model names."""
    named = {name: set(re.findall(r"\b(\w+)\(", text)) for name, text in models.items()}
    rows = {}
    for name, (text, has) in texts.items():
        if about := sorted(model for model, names in named.items() if names & has):
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            rows[name] = " ".join([digest, *about])
    return rows


def changes(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """What somebody has to look at."""
    said = []
    for name in sorted({*old, *new}):
        if old.get(name) == new.get(name):
            continue
        digest, *about = (new.get(name) or old[name]).split()
        what = "is gone" if name not in new else "is new in the table"
        if name in new and name in old:
            moved = old[name].split()[0] == digest
            what = "is named by other models" if moved else "has changed"
        said.append(f"{name} {what}: look at models {', '.join(about)}; then run {COMMAND}")
    return said


def models_of(directory: Path = MODELS) -> dict[str, str]:
    return {path.stem: path.read_text() for path in sorted(directory.glob("*.pml"))}


def test_models_are_about_todays_functions() -> None:
    new = table(today(), models_of())
    if os.environ.get("MODEL_TEXTS") == "write":
        head = "# SPDX-License-Identifier: GPL-2.0\n"
        head += f"# Texts of the kernel that models name: see {COMMAND.rsplit(maxsplit=1)[-1]}\n"
        rows = "".join(f'"{name}" = "{row}"\n' for name, row in new.items())
        TABLE.write_text(f"{head}[texts]\n{rows}")
    assert changes(tomllib.loads(TABLE.read_text())["texts"], new) == []


def test_rules_that_the_readme_names_can_be_broken() -> None:
    known = {fault.name for fault in manifest.faults()}
    parts = {name.split("_")[0] for name in known}
    named = set(re.findall(rf"`((?:{'|'.join(parts)})_\w+)`", (MODELS / "README.md").read_text()))
    assert {"defer_wp", "batch_early"} <= named <= known, named - known


def test_a_table_has_the_functions_that_matter() -> None:
    names = {name.split(": ")[-1] for name in table(today(), models_of())}
    assert names >= {"migrc_publish()", "__migrc_settle()", "migrc_mark_pending()"}
    assert any("flush-what-was-deferred-before" in name for name in names)


C = """/* doc */
static bool one(struct mm_struct *mm,
		int nid)
{
	return two(mm) && nid;
}

int two(void)
{
	return 2;
}
"""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("&& nid", "&& !nid"), ["a.c: one() has changed: look at models life, marks; then run"]),
        (("return 2", "return 3"), ["a.c: two() has changed: look at models marks; then run"]),
        (("bool one", "bool other"), ["a.c: one() is gone: look at models life, marks"]),
        (("/* doc */", "/* document */"), []),
    ],
)
def test_a_change_is_noticed(change: tuple[str, str], said: list[str]) -> None:
    models = {"marks": "/* one(), two() */", "life": "inline one(f)", "others": "/* three() */"}
    assert change[0] in C
    old, new = (table(functions("a.c", text), models) for text in (C, C.replace(*change)))
    found = changes(old, new)
    assert len(found) == len(said)
    for line, words in zip(found, said, strict=True):
        assert line.startswith(words)


def test_a_change_of_a_hook_is_noticed() -> None:
    patch = (
        "Subject: x\n\ndiff --git a/a.c b/a.c\n@@ -1,2 +1,3 @@ int one(void)\n \tx();\n+\ty();\n"
    )
    models = {"marks": "/* one() */"}
    old = table(hook("0001", patch), models)
    assert old.keys() == {"0001"} and old["0001"].endswith(" marks")
    for unlike, same in (("y();", False), ("x();", False), ("-1,2 +1,3", True), ("Subject", True)):
        new = table(hook("0001", patch.replace(unlike, "@@ -9 +9 @@"[3:8])), models)
        assert (changes(old, new) == []) is same, unlike


def test_each_text_is_compared(tmp_path: Path) -> None:
    """A byte of any function or hook that is in the table."""
    texts, models = today(), models_of()
    old = table(texts, models)
    for name in old:
        text, has = texts[name]
        spoilt = {**texts, name: (text[:-2] + "#" + text[-2:], has)}
        assert [line.split(" has changed")[0] for line in changes(old, table(spoilt, models))] == [
            name
        ]
