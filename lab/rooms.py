# SPDX-License-Identifier: GPL-2.0
"""The kernel side on disk: linux/series and its rooms.

A room holds new files (``files/``, at their path in the kernel tree) and
hooks (``hooks/``, small patches into files that exist before the room is
applied).  Rooms are applied in the order of linux/series: first a room's
files, then its hooks by name.

Each hook is a commit.  The new files are as many as ``room.toml`` has tables
``[[commit]]``, at its end: subject, text, and the files by path or pattern.
Whoever reviews a room reads one after the other.  A room never patches new
files of another one (``patched_across``).
"""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import cache, run
from lab.errors import LabError

LINUX = cache.PROJECT / "linux"
ROOM_TOML = "room.toml"
COMMIT_TABLE = "[[commit]]"


@dataclass(frozen=True)
class Commit:
    """A table [[commit]] of room.toml: new files that are reviewed together.

    Patterns are as in a shell; ``*`` and ``?`` stand for what is in one directory, ``**`` also
    for what is below.  The last commit of a room has all files that none names.
    """

    subject: str
    text: str = ""
    files: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """Subject and text."""
        return f"{self.subject}\n\n{self.text}".strip()

    def matching(self, names: Iterable[str]) -> list[str]:
        """Those files that a pattern names."""
        return [name for name in names if any(_matches(name, one) for one in self.files)]

    def toml(self) -> str:
        """The table."""
        lines = [COMMIT_TABLE, f"subject = {_quoted(self.subject)}"]
        if self.text:
            text = self.text.replace("\\", "\\\\").replace('"""', '""\\"')
            lines += ['text = """', text, '"""']
        if self.files:
            lines += ["files = [", *(f"    {_quoted(name)}," for name in self.files), "]"]
        return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _matches(name: str, pattern: str) -> bool:
    parts = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    regex = "".join(
        part if part.startswith("[") else parts.get(part, re.escape(part))
        for part in re.split(r"(\*\*|\*|\?|\[\w+\])", pattern)
    )
    return re.fullmatch(regex, name) is not None


@dataclass(frozen=True)
class Room:
    """One mechanism: a directory below linux/."""

    name: str
    path: Path

    @property
    def files(self) -> dict[str, Path]:
        """New files by their path in the kernel tree."""
        top = self.path / "files"
        return {str(p.relative_to(top)): p for p in sorted(top.rglob("*")) if p.is_file()}

    @property
    def hooks(self) -> list[Path]:
        """The patches in the order in which they apply."""
        return sorted((self.path / "hooks").glob("*.patch"))

    def cover(self) -> tuple[str, str]:
        """Subject and text of the cover letter."""
        letter = re.sub(r"<!--.*?-->\n", "", self._cover_text())  # the licence
        subject, _, body = letter.partition("\n")
        return subject.lstrip("# ").strip(), body.strip()

    @property
    def toml(self) -> Path:
        """What the room says of itself."""
        return self.path / ROOM_TOML

    def commits(self) -> list[Commit]:
        """The tables [[commit]], as they are written."""
        if not self.toml.exists():
            return []
        try:
            tables = tomllib.loads(self.toml.read_text(encoding="utf-8")).get("commit", [])
            return [_commit(table) for table in tables]
        except (tomllib.TOMLDecodeError, TypeError) as error:
            raise LabError(
                f"{self.toml}: {error}",
                f"a {COMMIT_TABLE} has subject, text and files = [paths or patterns]",
            ) from error

    def set_commits(self, commits: list[Commit]) -> None:
        """Replace the tables [[commit]], which end room.toml; what they say already stays."""
        if commits == self.commits():
            return
        text = "# SPDX-License-Identifier: GPL-2.0\n"
        if self.toml.exists():
            text = self.toml.read_text(encoding="utf-8")
        kept = re.split(rf"^{re.escape(COMMIT_TABLE)}$", text, maxsplit=1, flags=re.M)[0]
        tables = [commit.toml() for commit in commits]
        self.toml.write_text("\n".join([kept.rstrip() + "\n", *tables]), encoding="utf-8")

    def parts(self) -> list[tuple[Commit, list[str]]]:
        """The new files, commit by commit."""
        names, commits = list(self.files), self.commits()
        if not names and not commits:
            return []
        if not commits:
            raise LabError(
                f"room {self.name} has new files and no {COMMIT_TABLE}",
                f"end {self.toml} with one or more: subject, text, files",
            )
        return _shared_out(self.toml, names, commits)

    def _cover_text(self) -> str:
        path = self.path / "cover.md"
        if not path.exists():
            raise LabError(f"room {self.name} has no cover.md", f"write {path}")
        return path.read_text(encoding="utf-8")


def _commit(table: dict[str, Any]) -> Commit:
    """A table, or TypeError."""
    subject, text, files = table.get("subject"), table.get("text", ""), table.get("files", [])
    right = isinstance(subject, str) and isinstance(text, str) and isinstance(files, list)
    if not right or set(table) - {"subject", "text", "files"} or "\n" in str(subject):
        raise TypeError(f"wrong {COMMIT_TABLE}: {table}")
    return Commit(str(subject), text.strip(), tuple(str(name) for name in files))


def _shared_out(
    where: Path, names: list[str], commits: list[Commit]
) -> list[tuple[Commit, list[str]]]:
    """Which commit has which files; each of them one."""
    owner: dict[str, Commit] = {}
    subjects = [commit.subject for commit in commits]
    for commit in commits:
        if subjects.count(commit.subject) > 1:
            raise LabError(
                f"{where}: two commits have the subject {commit.subject!r}",
                "refresh tells commits by their subjects: change one of them",
            )
        for pattern in commit.files:
            if not any(_matches(name, pattern) for name in names):
                raise LabError(
                    f"{where}: {pattern!r} of commit {commit.subject!r} matches no new file",
                    "mend or remove it; patterns are paths in the kernel tree",
                )
        for name in commit.matching(names):
            if name in owner:
                raise LabError(
                    f"{where}: {name} is named by {owner[name].subject!r} and {commit.subject!r}",
                    "leave it to one of them",
                )
            owner[name] = commit
    parts = [(commit, [name for name in names if owner.get(name) is commit]) for commit in commits]
    parts[-1][1].extend(name for name in names if name not in owner)
    for commit, found in parts:
        if not found:
            raise LabError(
                f"{where}: commit {commit.subject!r} has no files",
                "name some, or remove the table",
            )
    return parts


def series() -> list[Room]:
    """The rooms of linux/series in order."""
    path = LINUX / "series"
    names = [
        name
        for line in path.read_text(encoding="utf-8").splitlines()
        if (name := line.partition("#")[0].strip())
    ]
    rooms = []
    for name in names:
        if not (LINUX / name).is_dir():
            raise LabError(f"linux/series names {name!r}, but linux/{name} does not exist")
        rooms.append(Room(name, LINUX / name))
    return rooms


def touched(patch: Path) -> list[str]:
    """The files that a hook changes."""
    text = patch.read_text(encoding="utf-8", errors="surrogateescape")
    return re.findall(r"^--- a/(\S+)$", text, flags=re.MULTILINE)


def patched_across(rooms: list[Room]) -> list[str]:
    """Hooks that patch a new file of another room, which none may: "room/hook: file"."""
    owner = {name: room for room in rooms for name in room.files}
    return [
        f"{room.name}/{hook.name}: {name} of {owner[name].name}"
        for room in rooms
        for hook in room.hooks
        for name in touched(hook)
        if name in owner and owner[name] != room
    ]


def base_files(rooms: list[Room]) -> set[str]:
    """The base kernel's files that the hooks of these rooms change."""
    added: set[str] = set()
    needed: set[str] = set()
    for room in rooms:
        added |= set(room.files)
        for hook in room.hooks:
            needed |= set(touched(hook)) - added
    return needed


def _hunks(patch: Path) -> Iterator[tuple[str, int, str]]:
    """(file, first old line, function) of every hunk."""
    name = ""
    for line in patch.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        if match := re.match(r"--- a/(\S+)$", line):
            name = match[1]
        elif match := re.match(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@ ?(.*)$", line):
            yield name, int(match[1]), match[2].strip()


def explain_reject(patch: Path, git_says: str) -> str:
    """Name file and function of each hunk that git refused.

    ``git apply`` names the file and the old line number of the first hunk of
    a file that does not fit; the hunk's header names its function.
    """
    failed = {
        (name, int(line)) for name, line in re.findall(r"patch failed: (\S+?):(\d+)", git_says)
    }
    missing = set(re.findall(r"error: (\S+): (?:No such file|does not exist)", git_says))
    rows = []
    for name, line, function in _hunks(patch):
        if (name, line) in failed or name in missing:
            why = "the file is not there" if name in missing else "its context has changed"
            rows.append(f"    {name}: {function or f'near line {line}'} ({why})")
    return "\n".join(dict.fromkeys(rows)) or "    " + git_says.strip()


def reject_error(room: Room, patch: Path, version: str, git_says: str) -> LabError:
    """The error for a hook that does not fit a base version."""
    return LabError(
        f"hook {room.name}/{patch.name} does not apply to {version}:\n"
        + explain_reject(patch, git_says),
        "mend the hook: `make tree` on a version where it applies, then rebase",
    )


def apply_to_directory(rooms: list[Room], directory: Path, version: str) -> None:
    """Apply rooms to plain files: the check that hooks fit a base version."""
    # Without a ceiling git would take a repository above `directory` for its own.
    env = dict(os.environ, GIT_CEILING_DIRECTORIES=str(directory.parent))
    for room in rooms:
        for name, source in room.files.items():
            target = directory / name
            if target.exists():
                raise LabError(f"room {room.name}: {name} exists already in {version}")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        for hook in room.hooks:
            try:
                run.output(["git", "apply", hook], cwd=directory, env=env)
            except LabError as error:
                raise reject_error(room, hook, version, error.what) from error
