# SPDX-License-Identifier: GPL-2.0
"""Keys, and what verifies signatures; for tests of several."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from lab import cache, run

MARK = b"~Module signature appended~\n"
INFO = 12  # bytes before the mark; the last four are the length of the signature


def documented() -> list[str]:
    """The command that makes a key and a certificate, as the engineer's guide has it."""
    text = (cache.PROJECT / "docs/engineer.md").read_text("utf-8")
    (line,) = re.findall(r"^    (openssl req .*)$", text, re.MULTILINE)
    return shlex.split(line)


def make_keys(directory: Path, name: str, begin: str = "") -> tuple[Path, Path]:
    """A key and its certificate, made at another time if ``begin`` says so."""
    paths = {word: directory / f"{name}-{word}" for word in ("key.pem", "cert.pem")}
    argv = [str(paths.get(word, word)).replace("our kernels", name) for word in documented()]
    run.output([*(["faketime", begin] if begin else []), *argv])
    return paths["key.pem"], paths["cert.pem"]


def is_signed_image(image: Path, cert: Path) -> bool:
    """Does the signature in a kernel belong to a certificate?"""
    argv = ["sbverify", "--cert", str(cert), str(image)]
    return subprocess.run(argv, check=False, capture_output=True).returncode == 0


def is_signed_module(module: bytes, cert: Path, work: Path) -> bool:
    """Is what an unpacked module ends in a signature of the rest, by a certificate's key?"""
    if not module.endswith(MARK):
        return False
    end = len(module) - len(MARK) - INFO
    size = int.from_bytes(module[end + INFO - 4 : end + INFO], "big")
    (work / "signature").write_bytes(module[end - size : end])
    (work / "signed").write_bytes(module[: end - size])
    argv = ["openssl", "cms", "-verify", "-binary", "-inform", "DER", "-noverify"]
    argv += ["-in", str(work / "signature"), "-content", str(work / "signed")]
    argv += ["-certfile", str(cert), "-out", "/dev/null"]
    return subprocess.run(argv, check=False, capture_output=True).returncode == 0


def changed(data: bytes, place: int) -> bytes:
    """The same with one bit of one byte changed."""
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
