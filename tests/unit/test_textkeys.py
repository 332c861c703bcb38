# SPDX-License-Identifier: GPL-2.0
"""Keys of code: what the compiler makes of a comment changes none, what runs changes them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab import textkeys

SOURCE = """
#define UNUSED() __LINE__
struct where { const char *file; int line; };
extern int first(int), second(int);
extern int seen[4];
static const int table[] = { 11, 22, 33, 44 };
static int local(int n) { return n * 3; }
int (*chosen)(int) = local;
/* a comment */
int f(int n)
{
	static const struct where here __attribute__((section("__bug_table"), used)) =
		{ __FILE__, __LINE__ };
	return first(n + 5) + table[n & 3] + seen[1];
}
__attribute__((section(".init.text"))) int g(void) { return 1; }
"""


def key(directory: Path, text: str, *flags: str) -> str:
    source, made = directory / "small.c", directory / "small.o"
    source.write_text(text)
    argv = ["gcc", "-O2", "-fno-pic", "-c", *flags, "-o", str(made), str(source)]
    subprocess.run(argv, check=True)
    return textkeys.key_of(made.read_bytes())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/* a comment */", "/* a longer comment,\n * of some lines\n */\n"),
        ("#define UNUSED()", "\n\n\n#define UNUSED()"),
        ("int f(int n)", "int f(int /* how many */ n)"),
        # Lines of warnings are constants of another section, see CODE.
        ("/* a comment */", "#line 900"),
    ],
)
def test_what_does_not_run_changes_no_key(old: str, new: str, tmp_path: Path) -> None:
    assert old in SOURCE
    assert key(tmp_path, SOURCE.replace(old, new)) == key(tmp_path, SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("n + 5", "n + 6"),
        ("first(n", "second(n"),
        ("33, 44", "33, 45"),
        ("seen[1]", "seen[2]"),
        ("return 1;", "return 2;"),
        ("n * 3", "n * 4"),
    ],
)
def test_what_runs_changes_the_key(old: str, new: str, tmp_path: Path) -> None:
    assert old in SOURCE
    assert key(tmp_path, SOURCE.replace(old, new)) != key(tmp_path, SOURCE)


def test_debugging_information_changes_no_key(tmp_path: Path) -> None:
    assert key(tmp_path, SOURCE, "-g") == key(tmp_path, SOURCE)


@pytest.mark.parametrize(
    "data", [b"", b"int f;\n", b"\x7fELF\x01\x01" + bytes(60), b"\x7fELF\x02\x02" + bytes(60)]
)
def test_what_is_no_object_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a 64-bit little-endian ELF object"):
        textkeys.key_of(data)


@pytest.fixture
def obj(tmp_path: Path) -> Path:
    """Objects as kbuild leaves them, of which vmlinux.a names some."""
    for name in ("mm/tier/a", "mm/tier/below/b", "mm/tier/other", "mm/migrate", "kernel/fork"):
        path = tmp_path / f"{name}.o"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = f"int {path.stem}(void) {{ return {len(name)}; }}"
        subprocess.run(
            ["gcc", "-O2", "-c", "-x", "c", "-o", str(path), "-"],
            input=text,
            text=True,
            check=True,
        )
    archive(tmp_path)
    return tmp_path


LINKED = ("mm/tier/a.o", "mm/tier/below/b.o", "mm/migrate.o", "kernel/fork.o")


def archive(directory: Path, *names: str) -> None:
    """As scripts/Makefile.vmlinux makes it: thin, with the paths of its members."""
    (directory / "vmlinux.a").unlink(missing_ok=True)
    names = names or LINKED
    subprocess.run(["ar", "cDPrST", "vmlinux.a", *names], cwd=directory, check=True)


def test_objects_of_a_kernel_and_their_directories(obj: Path) -> None:
    found = textkeys.keys(obj)
    assert set(found) == {
        *("mm/tier/a.o", "mm/tier/below/b.o", "mm/migrate.o"),
        *("mm/tier/", "mm/tier/below/"),
    }
    assert found["mm/migrate.o"] == textkeys.key_of((obj / "mm/migrate.o").read_bytes())
    assert "kernel/fork.o" in textkeys.keys(obj, "kernel/")


def test_a_changed_object_changes_the_keys_above_it_only(obj: Path) -> None:
    before = textkeys.keys(obj)
    (obj / "mm/tier/below/b.o").write_bytes((obj / "mm/tier/a.o").read_bytes())
    after = textkeys.keys(obj)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"mm/tier/below/b.o", "mm/tier/below/", "mm/tier/"}


def test_one_object_less_changes_its_directory(obj: Path) -> None:
    before = textkeys.keys(obj)
    archive(obj, *(name for name in LINKED if name != "mm/tier/below/b.o"))
    after = textkeys.keys(obj)
    assert after["mm/tier/"] != before["mm/tier/"] and "mm/tier/below/" not in after
    # What lies around of another flavour is not of this kernel.
    (obj / "mm/tier/other.o").write_bytes(b"")
    assert textkeys.keys(obj) == after
