# SPDX-License-Identifier: GPL-2.0
"""The kernel tree: rooms as git commits, and back.

``compose`` makes the commits of each room's new files (``[[commit]]`` of its
room.toml) and one per hook, on top of the base, without touching any work
tree: identities and dates are fixed, so the same input gives the same commits
everywhere.  ``checkout_tree``
(make tree) puts them into the cache's repository for editing, ``refresh``
writes an edited tree back into linux/, ``export_series`` writes mails.

Rules for editing (also printed by make tree): commit a change as a fixup of
the commit it belongs to (``git commit --fixup``), or as a new commit whose
last line says ``Tiershift-Room: NAME``.  A new file comes into the commit whose
pattern in room.toml matches it, or else into the one that adds it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab import cache, rooms, run, source
from lab.errors import LabError
from lab.rooms import Commit, Room

BRANCH = "tiershift"
TRAILER = "Tiershift-Room"
IDENTITY = {
    "GIT_AUTHOR_NAME": "tiershift developers",
    "GIT_AUTHOR_EMAIL": "tiershift@localhost.invalid",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "tiershift developers",
    "GIT_COMMITTER_EMAIL": "tiershift@localhost.invalid",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}


SIGNED_OFF = f"Signed-off-by: {IDENTITY['GIT_AUTHOR_NAME']} <{IDENTITY['GIT_AUTHOR_EMAIL']}>"


def repository() -> Path:
    """The kernel repository of the cache; made when it is not there."""
    path = cache.root() / "linux"
    if not (path / ".git").exists():
        run.output(["git", "init", "-q", "-b", "base", path])
        # 1.5 GB are committed once and seldom read: time is worth more than disk.
        for name, value in {"core.compression": "0", "gc.auto": "0"}.items():
            run.output(["git", "-C", path, "config", name, value])
    return path


def git(*args: str | Path, env: Mapping[str, str] | None = None, stdin: str = "") -> str:
    """git in the kernel repository, with the fixed identity."""
    full = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    full |= {"GIT_CONFIG_GLOBAL": "/dev/null"} | IDENTITY | dict(env or {})
    return run.output(["git", "-C", repository(), *args], env=full, stdin=stdin).rstrip("\n")


def base_tag(version: str) -> str:
    """The tag of a base version (~ is not allowed in names of references)."""
    return "base/" + version.replace("~", "_")


def unpacked() -> tuple[Path, Path]:
    """The source as it was unpacked last, and its git index.

    The first work tree for builds takes them over (``work_tree``): writing
    80,000 files a second time would take half a minute of a first run.
    """
    return cache.sub("src") / "unpacked", cache.sub("src") / "unpacked.index"


def work_tree(path: Path, commit: str) -> None:
    """A work tree of its own at ``commit``; only files that differ are written."""
    if not (path / ".git").exists():
        shutil.rmtree(path, ignore_errors=True)
        git("worktree", "prune")
        git("worktree", "add", "-q", "-f", "--no-checkout", "--detach", path, commit)
        directory, index = unpacked()
        if directory.exists() and index.exists():
            for entry in directory.iterdir():
                entry.rename(path / entry.name)
            directory.rmdir()
            inside = run.output(["git", "-C", path, "rev-parse", "--absolute-git-dir"])
            index.rename(Path(inside.strip()) / "index")
    run.output(["git", "-C", path, "reset", "-q", "--hard", commit])
    run.output(["git", "-C", path, "clean", "-q", "-f", "-d", "-x"])


def base_commit(version: str) -> str:
    """The commit that holds the unmodified source, made on first use."""
    with cache.lock("linux"):
        tag = base_tag(version)
        found = git("tag", "--list", tag)
        if not found:
            print(f"unpacking the source of {version} (about a minute)", file=sys.stderr)
            cache.need_space(12, "the kernel tree and its builds")
            directory, index = unpacked()
            source.unpack(version, directory)
            index.unlink(missing_ok=True)
            env = {"GIT_INDEX_FILE": str(index)}
            # -f: the source ships files that its own .gitignore names.
            git("--work-tree", directory, "add", "-A", "-f", ".", env=env)
            tree = git("write-tree", env=env)
            message = f"{source.PACKAGE} {version}\n\nAs unpacked from Debian's package."
            git("tag", tag, git("commit-tree", tree, stdin=message))
        return git("rev-parse", f"{tag}^{{commit}}")


_composed: dict[str, str] = {}  # commits by what they were made of


def compose(version: str, names: list[Room] | None = None) -> str:
    """The commit of the base plus rooms (all of linux/series by default)."""
    wanted = rooms.series() if names is None else names
    content = _content(version, wanted)
    if content not in _composed:  # some seconds
        _composed[content] = _compose(version, wanted)
    return _composed[content]


def _content(version: str, wanted: list[Room]) -> str:
    """A key of all that compose() reads."""
    parts: list[str | bytes] = [str(repository()), version]
    for room in wanted:
        parts.append(room.name)
        for path in [room.toml, *room.files.values(), *room.hooks]:
            parts += [str(path), str(path.exists() and path.stat().st_mode & 0o100)]
            parts.append(path.read_bytes() if path.exists() else "")
    return cache.key(parts)


def _compose(version: str, wanted: list[Room]) -> str:
    head = base_commit(version)
    with tempfile.TemporaryDirectory() as scratch:
        env = {"GIT_INDEX_FILE": f"{scratch}/index"}
        git("read-tree", head, env=env)
        for room in wanted:
            _refuse_existing(room, version, env)
            for commit, names in room.parts():
                head = _commit_files(room, commit, names, head, env)
            for hook in room.hooks:
                head = _commit_hook(room, hook, head, version, env)
    return head


def _commit(head: str, message: str, room: Room, env: Mapping[str, str]) -> str:
    if f"{TRAILER}:" not in message:
        message = f"{message}\n{TRAILER}: {room.name}"
    tree = git("write-tree", env=env)
    return git("commit-tree", tree, "-p", head, stdin=message + "\n")


def _refuse_existing(room: Room, version: str, env: Mapping[str, str]) -> None:
    existing = set(git("ls-files", "--", *room.files, env=env).splitlines()) if room.files else ()
    if existing:
        raise LabError(f"room {room.name}: {min(existing)} exists already in {version}")


def _commit_files(
    room: Room, commit: Commit, names: list[str], head: str, env: Mapping[str, str]
) -> str:
    paths = [room.files[name] for name in names]
    blobs = git("hash-object", "-w", "--stdin-paths", stdin="\n".join(map(str, paths)) + "\n")
    info = []
    for name, path, blob in zip(names, paths, blobs.split(), strict=True):
        mode = "100755" if path.stat().st_mode & 0o100 else "100644"
        info.append(f"{mode} {blob}\t{name}")
    git("update-index", "--add", "--index-info", env=env, stdin="\n".join(info) + "\n")
    return _commit(head, f"{commit.message}\n\n{SIGNED_OFF}", room, env)


def _commit_hook(room: Room, hook: Path, head: str, version: str, env: Mapping[str, str]) -> str:
    try:
        git("apply", "--cached", hook, env=env)
    except LabError as error:
        raise rooms.reject_error(room, hook, version, error.what) from error
    mail = hook.read_text(encoding="utf-8", errors="surrogateescape")
    return _commit(head, _message(mail), room, env)


def _message(mail: str) -> str:
    """Subject and text of a patch in mail form."""
    with tempfile.TemporaryDirectory() as scratch:
        text, patch = Path(scratch) / "text", Path(scratch) / "patch"
        info = git("mailinfo", "-b", text, patch, stdin=mail)
        match = re.search(r"^Subject: \[?(?:PATCH\] )?(.*)$", info, flags=re.MULTILINE)
        if not match:
            raise LabError("a hook has no Subject line", "write hooks by `make refresh`")
        return f"{match[1]}\n\n{text.read_text(encoding='utf-8').strip()}"


def checkout_tree(version: str) -> tuple[Path, str]:
    """make tree: the composed commits, checked out on branch tiershift."""
    path = repository()
    head = compose(version)
    with cache.lock("linux"):
        born = git("branch", "--list", BRANCH)
        if born:
            _refuse_to_lose_work(path, head)
        git("checkout", "-q", "-f", "-B", BRANCH, head)
        # Without commits of its own it may be replaced.
        git("config", "tiershift.checkedout", head)
    return path, head


def _refuse_to_lose_work(path: Path, head: str) -> None:
    """An edited tree is the developer's; only ``refresh`` makes it replaceable."""
    if git("status", "--porcelain", "--untracked-files=no"):
        raise LabError(
            f"{path} has uncommitted changes",
            "commit them and run `make refresh`, or `git stash` them there",
        )
    current = git("rev-parse", BRANCH)
    last = git("config", "--default", "", "tiershift.written")
    made = git("config", "--default", "", "tiershift.checkedout")
    if current not in {head, last, made}:
        raise LabError(
            f"{path} has commits on branch {BRANCH} that linux/ does not have",
            f"run `make refresh` to keep them, or `git -C {path} branch -m {BRANCH} old`",
        )


def refresh(version: str) -> list[str]:
    """make refresh: write branch tiershift back into linux/.

    Returns the names of the rooms that changed.  Fixup commits are folded
    first.  Afterwards the branch is the composed form of what was written,
    and its tree is the very tree that was edited, or nothing is kept.
    """
    base = base_commit(version)
    if git("status", "--porcelain", "--untracked-files=no"):
        raise LabError(
            f"{repository()} has uncommitted changes",
            "commit them: `git commit --fixup COMMIT` for the commit they belong to",
        )
    if git("rev-parse", "--abbrev-ref", "HEAD") != BRANCH:
        raise LabError(f"{repository()} is not on branch {BRANCH}", f"git checkout {BRANCH}")
    if re.search(r"^(fixup|squash|amend)! ", git("log", "--format=%s", f"{base}..HEAD"), re.M):
        git("rebase", "-q", "-i", "--autosquash", base, env={"GIT_SEQUENCE_EDITOR": "true"})
    wanted = git("rev-parse", "HEAD^{tree}")
    parts = _split_by_room(base)
    keep = Path(tempfile.mkdtemp(prefix="linux-", dir=cache.root()))
    shutil.copytree(rooms.LINUX, keep / "linux")
    try:
        changed = [room.name for room, commits in parts if _write_room(room, commits)]
        head = compose(version)
        if git("rev-parse", f"{head}^{{tree}}") != wanted:
            raise LabError(
                "what refresh wrote does not give the edited tree again",
                "a hook may change a file that a later commit of its room adds; reorder them",
            )
    except BaseException:
        shutil.rmtree(rooms.LINUX)
        shutil.copytree(keep / "linux", rooms.LINUX)
        raise
    finally:
        shutil.rmtree(keep)
    git("checkout", "-q", "-f", "-B", BRANCH, head)
    git("config", "tiershift.written", head)
    return changed


def _split_by_room(base: str) -> list[tuple[Room, list[str]]]:
    """The commits of each room, in the order of linux/series."""
    parts: list[tuple[str, list[str]]] = []
    log = git(
        "log",
        "--reverse",
        f"--format=%H%x09%(trailers:key={TRAILER},valueonly)%x00",
        f"{base}..HEAD",
    )
    for record in log.split("\0"):
        commit, _, name = record.strip().partition("\t")
        if not commit:
            continue
        if not name.strip():
            subject = git("log", "-1", "--format=%h %s", commit)
            raise LabError(
                f"commit {subject} belongs to no room",
                f"make it a fixup, or end its message with `{TRAILER}: NAME`",
            )
        if not parts or parts[-1][0] != name.strip():
            parts.append((name.strip(), []))
        parts[-1][1].append(commit)
    order = [room.name for room in rooms.series()]
    if [name for name, _ in parts] != order:
        raise LabError(
            "the rooms of the commits ("
            + ", ".join(name for name, _ in parts)
            + ") are not those of linux/series ("
            + ", ".join(order)
            + ")",
            "run `make tree` after adding a room; else reorder the commits with `git rebase -i`",
        )
    return [(Room(name, rooms.LINUX / name), commits) for name, commits in parts]


def _write_room(room: Room, commits: list[str]) -> bool:
    """Write files/, hooks/ and the tables of commits of one room; True if it changed."""
    before = list(cache.tree_parts(room.path)) if room.path.exists() else []
    start, end = f"{commits[0]}^", commits[-1]
    added = git("diff", "--no-renames", "--diff-filter=A", "--name-only", start, end).splitlines()
    for part in ("files", "hooks"):
        shutil.rmtree(room.path / part, ignore_errors=True)
    for name in added:
        target = room.path / "files" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        text = git("cat-file", "-p", f"{end}:{name}")
        target.write_text(text + "\n" if text else "", encoding="utf-8", errors="surrogateescape")
        if git("ls-tree", end, "--", name).startswith("100755"):
            target.chmod(0o755)
    room.path.mkdir(exist_ok=True)
    room.set_commits(_tables(room.commits(), commits, added))
    number = 0
    for commit in commits:
        changed = git("diff", "--no-renames", "--name-only", f"{commit}^", commit).splitlines()
        old = sorted(set(changed) - set(added))
        if old:
            number += 1
            _write_hook(room, number, commit, old)
    return before != list(cache.tree_parts(room.path))


def _tables(tables: list[Commit], commits: list[str], added: list[str]) -> list[Commit]:
    """What room.toml should say of the commits: whatever it has said and is still true.

    A table follows its commit, which it is known by to have the same subject or else the first
    of its files: to another place, another message, or into one with which it was squashed.
    """
    left = set(added)
    adds: dict[str, list[str]] = {}  # by commit, what it adds and is still there in the end
    for commit in commits:
        names = git("diff", "--no-renames", "--diff-filter=A", "--name-only", f"{commit}^", commit)
        adds[commit] = [name for name in names.splitlines() if name in left]
        left -= set(adds[commit])
    adder = {name: commit for commit, names in adds.items() for name in names}
    says = {commit: _parse(git("log", "-1", "--format=%B", commit)) for commit in commits}
    subjects = {says[commit].subject: commit for commit in reversed(commits) if adds[commit]}

    found: dict[str, list[str]] = {}  # by commit, the patterns of its tables
    known: set[str] = set()
    for table in tables:
        patterns = [one for one in table.files if Commit("", "", (one,)).matching(added)]
        named = Commit("", "", tuple(patterns)).matching(added)
        known |= set(named)
        home = subjects.get(table.subject) or next((adder[name] for name in named), None)
        if home:
            found.setdefault(home, []).extend(patterns)
    unnamed = [name for name in added if name not in known]
    last = max({*found, *(adder[name] for name in unnamed)}, key=commits.index, default=None)
    rest = last if last in found else None  # has what nobody names
    for name in unnamed:
        if adder[name] != rest:
            found.setdefault(adder[name], []).append(name)
    return [
        Commit(says[commit].subject, says[commit].text, tuple(found[commit]))
        for commit in commits
        if commit in found
    ]


def _parse(message: str) -> Commit:
    """Subject and text of a commit message, without what every message ends with."""
    text = _without_trailer(message)
    subject, _, body = text.removesuffix(SIGNED_OFF).strip().partition("\n")
    return Commit(subject.strip(), body.strip())


def _without_trailer(message: str) -> str:
    return re.sub(rf"^{TRAILER}:.*\n?", "", message, flags=re.MULTILINE).strip()


def _write_hook(room: Room, number: int, commit: str, paths: list[str]) -> None:
    """One commit as a mail, without what depends on the base's blob names."""
    subject = git("log", "-1", "--format=%s", commit)
    body = _without_trailer(git("log", "-1", "--format=%b", commit))
    diff = git(
        "diff", "--no-renames", "--no-ext-diff", "--stat", "-p", f"{commit}^", commit, "--", *paths
    )
    diff = re.sub(r"^index [0-9a-f]+\.\.[0-9a-f]+.*\n", "", diff, flags=re.MULTILINE)
    slug = re.sub(r"[^a-z0-9]+", "-", subject.lower()).strip("-")[:60]
    mail = (
        f"From {'0' * 40} Mon Sep 17 00:00:00 2001\n"
        f"From: {IDENTITY['GIT_AUTHOR_NAME']} <{IDENTITY['GIT_AUTHOR_EMAIL']}>\n"
        f"Date: {_MAIL_DATE}\nSubject: [PATCH] {subject}\n\n{body}\n---\n{diff}\n"
    )
    hooks = room.path / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / f"{number:04d}-{slug}.patch").write_text(
        mail, encoding="utf-8", errors="surrogateescape"
    )


_MAIL_DATE = "Thu, 1 Jan 2026 00:00:00 +0000"


def export_series(
    version: str, directory: Path, chosen: Sequence[Room] | None = None
) -> list[Path]:
    """make series: mails for ``git am --empty=drop``, one directory per room.

    A cover letter is a mail without a patch, which is what --empty=drop is for.
    """
    wanted = rooms.series() if chosen is None else [*chosen]
    head = compose(version, wanted)
    base = base_commit(version)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    written: list[Path] = []
    commits = git("rev-list", "--reverse", f"{base}..{head}").splitlines()
    number = 0
    for index, room in enumerate(wanted, 1):
        target = directory / f"{index}-{room.name}"
        target.mkdir()
        subject, body = room.cover()
        count = len(room.parts()) + len(room.hooks)
        cover = target / "0000-cover-letter.patch"
        cover.write_text(
            f"From {'0' * 40} Mon Sep 17 00:00:00 2001\n"
            f"From: {IDENTITY['GIT_AUTHOR_NAME']} <{IDENTITY['GIT_AUTHOR_EMAIL']}>\n"
            f"Date: {_MAIL_DATE}\nSubject: [PATCH 00/{count:02d}] {subject}\n\n{body}\n",
            encoding="utf-8",
        )
        written.append(cover)
        for position in range(1, count + 1):
            name = git(
                "format-patch",
                "-q",
                "-1",
                "--zero-commit",
                "--no-signature",
                f"--subject-prefix=PATCH {position:02d}/{count:02d}",
                "--start-number",
                str(position),
                "-o",
                target,
                commits[number],
            )
            del name
            number += 1
        written += sorted(target.glob("*.patch"))[1:]
    return written
