# SPDX-License-Identifier: GPL-2.0
"""Hashed names in a bundle: groups, hosts, processes, and files that processes have mapped.

The program draws a random key for the hash and forgets the key at its end.  One name has one hash
in a bundle, and the hash does not tell the name.  Files of /etc and /var are left out.
"""

from __future__ import annotations

import functools
import hashlib
import re
import secrets

from tierctl.core.paths import CGROUP, HOSTNAME, LOOKED, LRU_GEN, LRU_GEN_FULL
from tierctl.core.source import Sample
from tierctl.read.threads import OF_CPU, OURS

LEFT_OUT = ("/etc/", "/var/", "/proc/sys/kernel/random/")
KEPT_GROUPS = {"system.slice", "user.slice", "machine.slice", "init.scope", "-.slice"}
STEM = re.compile(
    r"^(machine-qemu\\x2d\d+\\x2d)?(.+?)(\.service|\.slice|\.scope|\.socket|\.mount)?$"
)
CGROUPS = re.compile(r"/proc/\d+/cgroup")
PROC = r"/proc/\d+/"
MAPPED = r"(?!\[(?:heap|stack|v\w+)\]$)[^ \n].*"  # a program may name anonymous memory
# Files with names: the path, what stands before a name and the name, and what names it.  Kernels
# escape newlines, but not in stat.
NAMES = tuple(
    (re.compile(path), re.compile(names, re.MULTILINE), kind)
    for path, names, kind in (
        (HOSTNAME, r"^()(.+)$", "word"),
        (f"{PROC}comm", r"^()(.+)$", "thread"),
        (f"{PROC}status", r"^(Name:\t)(.*)$", "thread"),
        (f"{PROC}stat", r"(?s:^(\d+ \()(.+)(?=\)))", "thread"),
        (f"{PROC}s?maps", rf"^([0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \S+ +)({MAPPED})$", "word"),
        (f"{PROC}numa_maps", r"( file=)(\S+)", "word"),
        (CGROUPS.pattern, r"^(0::)(.*)$", "group"),
        (f"{LRU_GEN}|{LRU_GEN_FULL}", r"^(memcg +\d+ )(.*)$", "group"),
        (LOOKED, r"^(\S+ \S+ )(.*)$", "group"),
    )
)


class Anonymizer:
    """Replaces names by hashes; one object for all samples of a bundle."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(16)
        self._groups: set[str] = set()

    def word(self, text: str) -> str:
        name = text.encode(errors="surrogatepass")  # a name may have any byte
        return hashlib.blake2b(name, key=self._key, digest_size=8).hexdigest()

    def group(self, name: str) -> str:
        """A part of the path of a group; its kind can still be told."""
        found = STEM.match(name)
        if not found or name in KEPT_GROUPS:
            return name
        return f"{found[1] or ''}{self.word(found[2])}{found[3] or ''}"

    def path(self, path: str) -> str:
        """A path, with hashed names of groups."""
        if not path.startswith(f"{CGROUP}/"):
            return path
        parts = path.removeprefix(f"{CGROUP}/").split("/")
        hashed = (self.group(one) if one in self._groups else one for one in parts)
        return "/".join([CGROUP, *hashed])

    def _text(self, path: str, text: str) -> str:
        if CGROUPS.fullmatch(path):  # without the lines of cgroup v1
            text = "".join(one for one in text.splitlines(True) if one.startswith("0::"))
        for place, names, kind in NAMES:
            if place.fullmatch(path):
                return names.sub(functools.partial(self._hash, kind), text)
        return text

    def _hash(self, kind: str, found: re.Match[str]) -> str:
        """Threads of the kernel that find or move pages keep their names."""
        name = found[2]
        if kind == "group":
            name = "/".join(self.group(one) if one else one for one in name.split("/"))
        elif kind == "word" or not (OURS.match(name) or OF_CPU.match(name)):
            name = self.word(name)
        return found[1] + name

    def sample(self, one: Sample) -> Sample:
        for key, kept in one.files.items():
            if key.startswith(CGROUP) and isinstance(kept, list):
                self._groups |= {name[:-1] for name in kept if name.endswith("/")}
        found = Sample(one.time)
        for key, kept in one.files.items():
            new = kept
            if isinstance(kept, str):
                new = self._text(key, kept)
            elif isinstance(kept, list) and key.startswith(CGROUP):
                hashed = [f"{self.group(name[:-1])}/" for name in kept if name.endswith("/")]
                new = sorted(hashed + [name for name in kept if not name.endswith("/")])
            if not key.startswith(LEFT_OUT):
                found.files[self.path(key)] = new
        return found
