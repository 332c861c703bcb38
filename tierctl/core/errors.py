# SPDX-License-Identifier: GPL-2.0
"""Exit codes, and the one exception that tierctl shows to its user."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

WELL = 0
FINDING = 1  # a finding or a difference
USAGE = 2
DENIED = 3
LACKING = 4  # this kernel lacks it


class TierctlError(Exception):
    """An error that a person can act on.

    ``what`` says what is wrong, ``todo`` what to do about it.  The command line prints both in
    one line and exits with ``code``.
    """

    def __init__(self, what: str, todo: str, code: int = USAGE) -> None:
        super().__init__(what)
        self.what = what
        self.todo = todo
        self.code = code

    def __str__(self) -> str:
        return f"{self.what}; {self.todo}"


def near(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known word that is most like another one, or ""."""
    import difflib  # noqa: PLC0415 - only errors need it

    return next(iter(difflib.get_close_matches(word, list(known), 1, cutoff)), "")


def as_root(live: bool = True) -> str:
    """What to do about a refusal; root is not told to be root."""
    if not live:
        return "capture as root"
    return "run as root" if os.geteuid() else "root is refused, too: lockdown, or a container"


def failed(error: OSError, what: str, todo: str) -> TierctlError:
    """An error of the system for the user; ``todo`` is for root, or for other errors."""
    code = DENIED if error.errno in (errno.EACCES, errno.EPERM) else FINDING
    todo = "run tierctl as root" if code == DENIED and os.geteuid() else todo
    return TierctlError(f"{what}: {error.strerror or error}", todo, code)
