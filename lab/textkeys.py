# SPDX-License-Identifier: GPL-2.0
"""Keys of the code in a kernel's objects: a changed comment changes none of them.

The key of an object covers its sections of code and constants, and what their relocations refer
to by name.  Line numbers of warnings lie in other sections.  A group is one object
("mm/migrate.o"), or all of a directory ("mm/migrc/").
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab import run

SHT_RELA, SHT_SYMTAB, SHT_NOBITS = 4, 2, 8
CODE = (".text", ".rodata", ".init.text", ".static_call.text", ".noinstr.text")


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    offset: int
    size: int
    link: int
    info: int


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


def _sections(data: bytes) -> list[_Section]:
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF object")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    heads = [struct.unpack_from("<IIQQQQII", data, table + size * n) for n in range(count)]
    strings = heads[names][4]
    return [
        _Section(_text(data, strings + head[0]), head[1], head[4], head[5], head[6], head[7])
        for head in heads
    ]


def _symbols(data: bytes, sections: list[_Section]) -> list[str]:
    table = next((one for one in sections if one.kind == SHT_SYMTAB), None)
    if table is None:
        return []
    strings = sections[table.link].offset
    found = []
    for at in range(table.offset, table.offset + table.size, 24):
        name, info, _other, index = struct.unpack_from("<IBBH", data, at)
        is_section = info & 15 == 3 and index < len(sections)
        found.append(sections[index].name if is_section else _text(data, strings + name))
    return found


def _is_code(name: str) -> bool:
    return any(name == part or name.startswith(part + ".") for part in CODE)


def key_of(data: bytes) -> str:
    """The key of one object file."""
    sections = _sections(data)
    symbols = _symbols(data, sections)
    digest = hashlib.sha256()
    for section in sections:
        if section.kind not in (SHT_NOBITS, SHT_RELA) and _is_code(section.name):
            digest.update(section.name.encode() + b"\0")
            digest.update(data[section.offset : section.offset + section.size])
        elif section.kind == SHT_RELA and _is_code(sections[section.info].name):
            digest.update(section.name.encode() + b"\0")
            for at in range(section.offset, section.offset + section.size, 24):
                offset, info, addend = struct.unpack_from("<QQq", data, at)
                what = f"{offset} {info & 0xFFFFFFFF} {symbols[info >> 32]} {addend}\n"
                digest.update(what.encode())
    return digest.hexdigest()[:12]


def _members(obj: Path) -> Iterator[str]:
    """The objects that a kernel was linked from; others lie around from other flavours."""
    # ar puts the archive's directory before the names that are in a thin archive.
    for name in run.output(["ar", "t", "vmlinux.a"], cwd=obj).split():
        if name.endswith(".o"):
            yield name


def keys(obj: Path, below: str = "mm/") -> dict[str, str]:
    """By object and directory below ``below``, of a kernel that has just been built."""
    found = {
        name: key_of((obj / name).read_bytes()) for name in _members(obj) if name.startswith(below)
    }
    groups: dict[str, list[str]] = {}
    for name in sorted(found):
        for parent in Path(name).parents:
            directory = f"{parent}/"
            if directory.startswith(below) and directory != below:
                groups.setdefault(directory, []).append(f"{name} {found[name]}")
    for directory, members in groups.items():
        found[directory] = hashlib.sha256("\n".join(members).encode()).hexdigest()[:12]
    return found
