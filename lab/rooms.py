# SPDX-License-Identifier: GPL-2.0
"""The kernel side on disk: linux/series and its rooms.

A room holds new files (``files/``, at their path in the kernel tree) and
hooks (``hooks/``, small patches into files that exist before the room is
applied).  Rooms are applied in the order of linux/series: first a room's
files, then its hooks by name.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab import cache, run
from lab.errors import LabError

LINUX = cache.PROJECT / "linux"
MESSAGE_HEADING = "## Commit message of the new files"


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
        letter = self._cover_text().partition(MESSAGE_HEADING)[0]
        letter = re.sub(r"<!--.*?-->\n", "", letter)  # the licence
        subject, _, body = letter.partition("\n")
        return subject.lstrip("# ").strip(), body.strip()

    def files_message(self) -> str:
        """The commit message of the new files."""
        message = self._cover_text().partition(MESSAGE_HEADING)[2].strip()
        if not message:
            raise LabError(
                f"{self.path / 'cover.md'} has no section {MESSAGE_HEADING!r}",
                "add it: subject line, empty line, text, Signed-off-by",
            )
        return message

    def set_files_message(self, message: str) -> None:
        """Replace the commit message of the new files in cover.md."""
        letter = self._cover_text().partition(MESSAGE_HEADING)[0].rstrip()
        text = f"{letter}\n\n{MESSAGE_HEADING}\n\n{message.strip()}\n"
        (self.path / "cover.md").write_text(text, encoding="utf-8")

    def _cover_text(self) -> str:
        path = self.path / "cover.md"
        if not path.exists():
            raise LabError(f"room {self.name} has no cover.md", f"write {path}")
        return path.read_text(encoding="utf-8")


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
