# SPDX-License-Identifier: GPL-2.0
"""Made-up packages of Debian, for tests."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from lab import run


def deb(
    directory: Path,
    name: str,
    version: str,
    files: Mapping[str, str] | None = None,
    **fields: str,
) -> Path:
    """A package with files, scripts executable; a text that begins with -> makes a link."""
    control = {
        "Package": name,
        "Version": version,
        "Architecture": "amd64",
        "Maintainer": "me <me@invalid>",
        **fields,
        "Description": "made up",
    }
    tree = directory / f".{name}"
    text = "".join(f"{name}: {value}\n" for name, value in control.items())
    for path, content in {"DEBIAN/control": text, **(files or {})}.items():
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("->"):
            target.symlink_to(content.removeprefix("->"))
        else:
            target.write_text(content, encoding="utf-8")
            target.chmod(0o755 if content.startswith("#!") else 0o644)
    made = directory / f"{name}_{version}_amd64.deb"
    run.output(["dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, made])
    shutil.rmtree(tree)
    return made
