# SPDX-License-Identifier: GPL-2.0
"""What has to hold of a vmlinux, for Debian's modules to load into it and to be right in it.

A module loads if each symbol that it uses has the checksum that it was built against.  The
checksum covers all types that the symbol's declaration leads to.  Not covered is what a header
has inlined into the module, and a changed file that is in a module itself: its room has to
declare that module.  So a hook that changes a header for modules is told, if it could be the
cause of another checksum; a changed file that Debian's configuration has in a module is an
error.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import kconfig, manifest, rooms, run, tree
from lab.errors import LabError
from lab.rooms import Room

VMLINUX = "vmlinux"
SHOWN = 12
WAY_OUT = "mend the hook, or build all modules as well: MODULES=build"
# What Kconfig finds out about the machine that builds
OF_THE_BUILDER = re.compile(
    r"^CONFIG_(PAHOLE_\w+|\w*CC_\w+|(GCC|CLANG|AS|LD|LLD|RUSTC)_\w+|TOOLS_SUPPORT_RELR|RUST\w*)$"
)


@dataclass(frozen=True)
class Symbol:
    """A line of Module.symvers."""

    crc: str
    module: str
    kind: str  # EXPORT_SYMBOL or EXPORT_SYMBOL_GPL
    namespace: str

    def __str__(self) -> str:
        return " ".join(filter(None, (self.crc, self.kind, self.namespace)))


def symbols(symvers: str) -> dict[str, Symbol]:
    """Of Module.symvers, by name."""
    found: dict[str, Symbol] = {}
    for line in symvers.splitlines():
        crc, name, module, kind, namespace = (*line.split("\t"), "")[:5]
        found[name] = Symbol(crc, module, kind, namespace)
    return found


def differing(ours: str, debian: str, modules: Collection[str] = (VMLINUX,)) -> dict[str, str]:
    """Symbols of Debian's vmlinux, or modules, that ours has otherwise or not at all, and how."""
    mine = symbols(ours)
    found: dict[str, str] = {}
    for name, theirs in symbols(debian).items():
        if theirs.module not in modules:
            continue
        if name not in mine:
            found[name] = "missing"
        elif mine[name] != theirs:
            found[name] = f"{mine[name]}, Debian's modules need {theirs}"
    return found


def causes(exporters: Iterable[str], chosen: Sequence[Room]) -> list[str]:
    """Hooks that may have changed a symbol's checksum.

    Those that patch the file that exports it; if there are none, those that change a type in a
    header for modules.  ``exporters`` are the files that export the symbol.
    """
    direct, types = [], []
    files = set(exporters)
    for room in chosen:
        for hook in room.hooks:
            name = f"linux/{room.name}/hooks/{hook.name}"
            if files & set(rooms.touched(hook)):
                direct.append(name)
            types += [f"{name} ({kind})" for kind in changed_types(hook.read_text("utf-8"))]
    return direct or types


def changed_types(patch: str) -> list[str]:
    """Structs, unions and enums in headers for modules that a patch changes."""
    found: dict[str, None] = {}
    public, kind = False, ""
    for line in patch.splitlines():
        if line.startswith("+++ "):
            public = bool(re.match(r"\+\+\+ b/(arch/\w+/)?include/", line))
        elif line.startswith("@@"):
            kind = _type_in(line.rpartition("@@")[2])
        elif public and line[:1] in ("+", "-", " "):
            kind = _type_in(line[1:]) or ("" if re.match(r"[+ -]}", line) else kind)
            # Members are indented; after the last one the hunk's head may still name the type.
            if kind and line[0] != " " and line[1:2] in ("\t", " "):
                found[kind] = None
    return [*found]


def _type_in(line: str) -> str:
    """The type whose definition a line begins."""
    match = re.match(r"\s?((?:struct|union|enum) \w+) ?{", line)
    return match[1] if match else ""


def check_symbols(ours: str, debian: str, commit: str, chosen: Sequence[Room]) -> int:
    """A LabError if a symbol of vmlinux differs; else how many were compared."""
    found = differing(ours, debian)
    if not found:
        return sum(one.module == VMLINUX for one in symbols(debian).values())
    lines = []
    for name, how in [*found.items()][:SHOWN]:
        blamed = causes(_exporters(name, commit), chosen)
        lines.append(f"    {name}: {how}" + (f"; see {', '.join(blamed)}" if blamed else ""))
    if len(found) > SHOWN:
        lines.append(f"    and {len(found) - SHOWN} more")
    raise LabError(
        f"{len(found)} symbols are not what Debian's modules were built against:\n"
        + "\n".join(lines),
        WAY_OUT,
    )


def check_modules(ours: str, debian: str, replaced: Mapping[str, Sequence[str]]) -> None:
    """A LabError if a module of ours differs in a symbol, and one of Debian's uses that module.

    ``replaced`` are the modules of ours by their paths, without .ko, and Debian's that use each.
    """
    for path, users in replaced.items():
        found = differing(ours, debian, [path])
        if found and users:
            name, how = next(iter(found.items()))
            raise LabError(
                f"our module {path} has {name} as {how}; so Debian's {', '.join(users)} "
                "would not load",
                f"name these in modules = [...] of the {manifest.NAME}, too",
            )


def _exporters(symbol: str, commit: str) -> list[str]:
    pattern = rf"EXPORT_(PER_CPU_)?SYMBOL(_GPL|_NS|_NS_GPL)?\({symbol}[,)]"
    grep = ["grep", "--no-color", "-lE", pattern, commit, "--", "*.c", "*.S"]
    try:
        return [line.partition(":")[2] for line in tree.git(*grep).splitlines()]
    except LabError:  # none, which grep calls a failure
        return []


def check_config(result: str, debian: str, ours: Iterable[str]) -> None:
    """A LabError if an option is not what Debian has, or we want."""
    wanted = kconfig.options(debian)
    for text in ours:
        wanted |= kconfig.options(text)
    have = kconfig.options(result)
    wrong = [
        f"    {name}={value} is {have.get(name, 'n')}"
        for name, value in wanted.items()
        if have.get(name, "n") != value and not OF_THE_BUILDER.match(name)
    ]
    if wrong:
        more = [f"    and {len(wrong) - SHOWN} more"] if len(wrong) > SHOWN else []
        raise LabError(
            f"{len(wrong)} options are not as wanted:\n" + "\n".join(wrong[:SHOWN] + more),
            "install what lab/packages.txt names (pahole for BTF), or add what an option of a "
            f"room depends on to its {manifest.NAME}",
        )


def check_btf(vmlinux: Path) -> None:
    """A LabError if vmlinux has no BTF: struct module would be another, and with it all."""
    if ".BTF" not in run.output(["readelf", "--wide", "--section-headers", vmlinux]).split():
        raise LabError("vmlinux has no BTF", "install pahole (package dwarves) and try again")


def _value(src: Path, name: str, have: Mapping[str, str]) -> str:
    """How a file is compiled, by the Makefile beside it: y, m or n.

    A file that has none beside it is some module's, as those of virt/kvm are.
    """
    path = src / name
    makefile = path.parent / "Makefile"
    if not makefile.exists():
        return "m"
    text = makefile.read_text("utf-8").replace("\\\n", " ")
    pattern = rf"^obj-\$\((CONFIG_\w+)\)\s*[:+]?=.*\b{re.escape(path.stem)}\.o\b"
    found = re.search(pattern, text, re.MULTILINE)
    return have.get(found[1], "n") if found else "y"


def check_files(
    src: Path, obj: Path, chosen: Sequence[Room], declared: Mapping[str, Sequence[str]]
) -> None:
    """A LabError if a hook patches a C file of a module that is not declared.

    ``declared`` has the files of each module of ours that replaces Debian's.
    """
    known = {name for files in declared.values() for name in files}
    have = kconfig.options((obj / ".config").read_text("utf-8"))
    for room in chosen:
        for hook in room.hooks:
            for name in rooms.touched(hook):
                if not name.endswith(".c") or name in known:
                    continue
                value = _value(src, name, have)
                built = (obj / name).with_suffix(".o").exists()
                if value == "m" or (value == "y" and not built):
                    raise LabError(
                        f"linux/{room.name}/hooks/{hook.name} patches {name}, which is not in "
                        "vmlinux: Debian's module would lack the patch",
                        f"name its module in modules = [...] of linux/{room.name}/{manifest.NAME}",
                    )
