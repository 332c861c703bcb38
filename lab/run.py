# SPDX-License-Identifier: GPL-2.0
"""Run a program and turn its failure into an error with its last words."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.errors import LabError


def output(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | bytes | None = None,
    todo: str = "",
) -> str:
    """The standard output of ``argv``; a LabError when it is missing or fails."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    try:
        done = subprocess.run(
            [str(arg) for arg in argv],
            cwd=cwd,
            env=dict(env) if env is not None else None,
            input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise LabError(f"{argv[0]} is not installed", "run `./bootstrap.sh`") from error
    if done.returncode:
        words = (done.stderr or done.stdout).decode(errors="replace").strip()
        last = "\n".join("    " + line for line in words.splitlines()[-15:])
        name = " ".join(str(arg) for arg in argv[:4])
        raise LabError(f"`{name} ...` failed with code {done.returncode}:\n{last}", todo)
    return done.stdout.decode(errors="surrogateescape")
