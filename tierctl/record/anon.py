# SPDX-License-Identifier: GPL-2.0
"""Hashed names in a bundle: groups, hosts, processes, and files that processes have mapped.

The program draws a random key for the hash and forgets the key at its end.  One name has one hash
in a bundle, and the hash does not tell the name.  Files of /etc and /var are left out.
"""

from __future__ import annotations

import hashlib
import re
import secrets

from tierctl.core.paths import CGROUP, HOSTNAME, LRU_GEN, LRU_GEN_FULL
from tierctl.core.source import Sample
from tierctl.read.threads import OF_CPU, OURS

LEFT_OUT = ("/etc/", "/var/", "/proc/swaps", "/proc/sys/kernel/random/")
KEPT_GROUPS = {"system.slice", "user.slice", "machine.slice", "init.scope", "-.slice"}
STEM = re.compile(
    r"^(machine-qemu\\x2d\d+\\x2d)?(.+?)(\.service|\.slice|\.scope|\.socket|\.mount)?$"
)
# Words of the kernel's command line that say something about memory
WORD = re.compile(
    r"^(tier|numa|numa_balancing|transparent_hugepage|hugepagesz|hugepages|default_hugepagesz|mem"
    r"|memmap|movable_node|efi|cgroup_\w+|systemd\.unified_cgroup_hierarchy|lockdown|maxcpus"
    r"|nosmt|memhp_default_state|memory_hotplug\.\w+|dax_\w+|cxl_\w+)(=|$)"
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
    )
)


class Anonymizer:
    """Replaces names by hashes; one object for all samples of a bundle."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(16)
        self._groups: set[str] = set()

    def word(self, text: str) -> str:
        """The hash of a name."""
        return hashlib.blake2b(text.encode(), key=self._key, digest_size=8).hexdigest()

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
        return "/".join(
            [CGROUP, *(self.group(one) if one in self._groups else one for one in parts)]
        )

    def _group_path(self, path: str) -> str:
        return "/".join(self.group(one) if one else one for one in path.split("/"))

    def _thread(self, name: str) -> str:
        """The hash of a name; threads of the kernel that find or move pages keep theirs."""
        return name if OURS.match(name) or OF_CPU.match(name) else self.word(name)

    def _text(self, path: str, text: str) -> str:
        """The text of a file, with hashed names."""
        if path == "/proc/cmdline":
            return " ".join(word for word in text.split() if WORD.match(word)) + "\n"
        if path == "/proc/version":
            return text.partition(" (")[0] + "\n"
        if CGROUPS.fullmatch(path):  # without the lines of cgroup v1
            text = "".join(one for one in text.splitlines(True) if one.startswith("0::"))
        for place, names, kind in NAMES:
            if place.fullmatch(path):
                return self._hashed(text, names, kind)
        return text

    def _hashed(self, text: str, names: re.Pattern[str], kind: str) -> str:
        to = {"word": self.word, "thread": self._thread, "group": self._group_path}[kind]
        return names.sub(lambda found: found[1] + to(found[2]), text)

    def sample(self, one: Sample) -> Sample:
        """A sample with hashed names."""
        for path, names in one.directories.items():
            if path.startswith(CGROUP) and not isinstance(names, str):
                self._groups |= {name[:-1] for name in names if name.endswith("/")}
        found = Sample(one.time)
        for path, content in one.files.items():
            if not path.startswith(LEFT_OUT):
                if isinstance(content, bytes):
                    hashed_text = self._text(path, content.decode()).encode()
                    found.files[self.path(path)] = hashed_text
                else:
                    found.files[self.path(path)] = content
        for path, names in one.directories.items():
            if path.startswith(CGROUP) and not isinstance(names, str):
                hashed = [self.group(name[:-1]) + "/" for name in names if name.endswith("/")]
                hashed += [name for name in names if not name.endswith("/")]
                found.directories[self.path(path)] = sorted(hashed)
            elif not path.startswith(LEFT_OUT):
                found.directories[path] = names
        found.pieces = dict(one.pieces)
        return found
