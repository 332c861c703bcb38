# SPDX-License-Identifier: GPL-2.0
"""The one exception that the lab shows to its user."""


class LabError(Exception):
    """Something a person can act on.

    ``what`` says what is wrong, ``todo`` what to do about it.  The command
    line prints both and exits with ``code``; a traceback means a bug in the lab.
    """

    code = 1

    def __init__(self, what: str, todo: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.todo = todo

    def __str__(self) -> str:
        return f"{self.what}\n  what to do: {self.todo}" if self.todo else self.what
