# SPDX-License-Identifier: GPL-2.0
"""Signatures for Secure Boot: make deb KEY= CERT=.

sbsign signs vmlinuz, and sign-file of Debian's linux-kbuild signs each module.  vmlinux trusts
CERT: signed modules load with and without Secure Boot, and set no taint flag.

Only these two programs open KEY.  A package's content key covers CERT and not KEY: one key gives
one signature, as RSA with PKCS#1 v1.5 has no random part.  sbsign writes the time into its
signature; faketime sets that to the time of all files of the package.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from lab import kconfig, run
from lab.deb import modules
from lab.deb.debian import Debian
from lab.deb.package import EPOCH
from lab.errors import LabError

TRUSTED = "certs/builder.pem"  # CERT, below kbuild's output directory
OPTION = f'CONFIG_SYSTEM_TRUSTED_KEYS="{TRUSTED}"\n'
RSA = "Public Key Algorithm: rsaEncryption\n"
LEAST_BITS = 2048
MODULES_ONLY = "1.3.6.1.4.1.2312.16.1.2"  # an extended key usage; shim looks for it
MISMATCH = "key values mismatch"  # libcrypto's words


class BadKeys(LabError):
    """KEY and CERT as they are sign nothing: a mistake of usage, told in one line."""

    code = 2

    def __str__(self) -> str:
        return f"{self.what}: {self.todo}"


@dataclass(frozen=True)
class Keys:
    """What signs, and the certificate of it."""

    key: Path
    cert: str  # in PEM; the one certificate, whatever else its file has

    def parts(self) -> list[str]:
        """What a content key covers."""
        return [self.cert, run.output(["sbsign", "--version"])]


def keys(key: str | None, cert: str | None) -> Keys | None:
    """Of the values of KEY= and CERT=; None without them."""
    if not key and not cert:
        return None
    if not key or not cert:
        given, other = ("KEY", "CERT") if key else ("CERT", "KEY")
        raise BadKeys(f"{given}= without {other}=", "say both, or none for an unsigned package")
    for name, path in (("KEY", key), ("CERT", cert)):
        if not os.path.isfile(path) or not os.access(path, os.R_OK):
            raise BadKeys(f"{name}={path} is no file that can be read", "name one in PEM")
    try:
        text = _openssl(["-inform", "PEM", "-in", cert])
    except LabError as error:
        raise BadKeys(f"CERT={cert} is no certificate in PEM", "name one that is") from error
    said = _openssl(["-noout", "-text"], text)
    if RSA not in said:
        raise BadKeys(f"the key of CERT={cert} is not RSA", "make an RSA key, as firmware wants")
    bits = re.search(r"Public-Key: \((\d+) bit\)", said)
    if not bits or int(bits[1]) < LEAST_BITS:
        what = f"the key of CERT={cert} is smaller than {LEAST_BITS} bits"
        raise BadKeys(what, "make a larger key, and a certificate of it")
    if MODULES_ONLY in said:
        todo = f"make a certificate without the extended key usage {MODULES_ONLY}"
        raise BadKeys(f"CERT={cert} is for modules only, and shim refuses its kernels", todo)
    dates = _openssl(["-noout", "-dates", "-dateopt", "iso_8601"], text)
    begin, end = map(datetime.fromisoformat, re.findall(r"=(.+)$", dates, re.MULTILINE))
    now = datetime.now(UTC)
    if now < begin:
        raise BadKeys(f"CERT={cert} is valid from {begin} on", "wait, or set the clock right")
    if now > end:
        raise BadKeys(f"CERT={cert} has expired", "make a new certificate of the key")
    return Keys(Path(key), text)


def _openssl(argv: Sequence[str | Path], cert: str = "") -> str:
    return run.output(["openssl", "x509", *argv], stdin=cert)


def check(wanted: Keys, debian: Debian) -> None:
    """BadKeys if KEY does not sign for CERT: tried on a file of a few bytes."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        cert, tiny = work / "cert.pem", work / "tiny"
        cert.write_text(wanted.cert, encoding="utf-8")
        tiny.write_text("tiny", encoding="utf-8")
        program = debian.sign_file(work)
        try:
            sign_module(tiny, program, "sha256", wanted.key, cert)
        except LabError as error:
            if MISMATCH in error.what:
                todo = "name the certificate of that key"
                raise BadKeys(f"CERT does not belong to KEY={wanted.key}", todo) from error
            todo = "name a private key in PEM without a passphrase"
            raise BadKeys(f"KEY={wanted.key} does not sign", todo) from error


def sign_module(module: Path, program: Path, digest: str, key: Path, cert: Path) -> None:
    """Append a signature to an unpacked module."""
    run.output([program, digest, key, cert, module], env=_environment())


def sign_image(image: Path, key: Path, cert: Path) -> None:
    """Put a signature into vmlinuz."""
    argv: list[str | Path] = ["faketime", f"@{EPOCH}", "sbsign", "--key", key, "--cert", cert]
    run.output([*argv, "--output", image, image], env=_environment())


def _environment() -> dict[str, str]:
    """Nothing of the builder's but the path: signatures do not depend on the rest."""
    return {"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC"}


def sign(root: Path, obj: Path, key: Path, debian: Debian, log: TextIO = sys.stderr) -> None:
    """Sign vmlinuz and all modules of a package that is laid out in ``root``.

    ``obj`` is kbuild's output directory: its vmlinux trusts the certificate that lies there.
    """
    said = kconfig.options((obj / ".config").read_text("utf-8"))
    digest = said["CONFIG_MODULE_SIG_HASH"].strip('"')
    cert = obj / TRUSTED
    for image in (root / "boot").glob("vmlinuz-*"):
        sign_image(image, key, cert)
    with tempfile.TemporaryDirectory() as name:
        program = debian.sign_file(Path(name))

        def one(module: Path) -> None:
            sign_module(module, program, digest, key, cert)

        modules.change_all(root / "lib/modules", "signed", one, log)
