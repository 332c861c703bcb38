# SPDX-License-Identifier: GPL-2.0
"""Signatures for Secure Boot: real keys and programs, small files, bad input."""

from __future__ import annotations

import hashlib
import lzma
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from debs import deb
from signing import changed, is_signed_image, is_signed_module, make_keys

from lab import build, cache, cli, kconfig, run, source, tree
from lab.deb import debian, gate, make, modules, sign
from lab.deb.debian import Debian
from lab.errors import LabError

Pair = tuple[Path, Path]
SUFFIX = "6.12.117-tiershift1-amd64"
EFI_APPLICATION = "10"
SOURCE = """int efi_main(void) { return 0; }
__attribute__((section(".modinfo"))) const char licence[] = "license=GPL";
"""
PRIVATE = "PRIVATE KEY-----"

# Keys are made once.
pytestmark = pytest.mark.xdist_group("sign")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="module")
def pair(directory: Path) -> Pair:
    return make_keys(directory, "good")


@pytest.fixture(scope="module")
def other(directory: Path) -> Pair:
    return make_keys(directory, "other")


@pytest.fixture(scope="module")
def theirs() -> Debian:
    return debian.find("amd64")


@pytest.fixture
def loaded(pair: Pair) -> sign.Keys:
    found = sign.keys(*map(str, pair))
    assert found
    return found


def _program(directory: Path) -> tuple[Path, Path]:
    """A program of EFI, as vmlinuz is one, and the object file it is made of."""
    source, compiled = directory / "x.c", directory / "x.o"
    source.write_text(SOURCE)
    run.output(["gcc", "-c", "-fno-asynchronous-unwind-tables", source, "-o", compiled])
    run.output(["objcopy", "--remove-section=.comment", compiled])
    argv = ["ld", "-m", "i386pep", f"--subsystem={EFI_APPLICATION}", "-e", "efi_main"]
    run.output([*argv, "--no-insert-timestamp", compiled, "-o", directory / "x.efi"])
    return directory / "x.efi", compiled


def _laid_out(directory: Path, cert: str, digest: str) -> tuple[Path, Path]:
    """The tree of a package and kbuild's output directory, both with what signing needs."""
    root, obj = directory / "root", directory / "obj"
    fs = root / f"lib/modules/{SUFFIX}/kernel/fs"
    for path in (root / "boot", fs, (obj / sign.TRUSTED).parent):
        path.mkdir(parents=True)
    image, compiled = _program(directory)
    image.rename(root / f"boot/vmlinuz-{SUFFIX}")
    for name in ("a", "b"):
        (fs / f"{name}.ko.xz").write_bytes(modules.pack(compiled.read_bytes()))
    (obj / ".config").write_text(f'CONFIG_MODULE_SIG_HASH="{digest}"\n')
    (obj / sign.TRUSTED).write_text(cert)
    return root, obj


Signing = Callable[[str, str], tuple[Path, list[bytes]]]


@pytest.fixture
def signing(tmp_path: Path, loaded: sign.Keys, theirs: Debian) -> Signing:
    """Signs a package with a digest for modules; its image, and its modules unpacked."""

    def signed(name: str, digest: str) -> tuple[Path, list[bytes]]:
        (tmp_path / name).mkdir()
        root, obj = _laid_out(tmp_path / name, loaded.cert, digest)
        with open(tmp_path / "log", "w", encoding="utf-8") as log:
            sign.sign(root, obj, loaded.key, theirs, log)
        found = sorted(root.rglob("*.ko.xz"))
        assert len(found) == 2
        return next(root.glob("boot/*")), [lzma.decompress(path.read_bytes()) for path in found]

    return signed


def test_sign_image_signed_verifies_with_its_certificate_only(
    signing: Signing, pair: Pair, other: Pair, tmp_path: Path
) -> None:
    image, _ = signing("x", "sha256")
    assert is_signed_image(image, pair[1])
    assert not is_signed_image(image, other[1])
    (tmp_path / "x2").mkdir()
    assert not is_signed_image(_program(tmp_path / "x2")[0], pair[1])


def test_sign_image_one_byte_changed_fails(signing: Signing, pair: Pair, tmp_path: Path) -> None:
    image, _ = signing("x", "sha256")
    data = image.read_bytes()
    code = data.index(b"\x55\x48\x89\xe5")  # the first instructions of a function
    image.write_bytes(changed(data, code))
    assert not is_signed_image(image, pair[1])
    image.write_bytes(data)
    assert is_signed_image(image, pair[1])


def test_sign_modules_signed_verify_with_their_certificate_only(
    signing: Signing, pair: Pair, other: Pair, tmp_path: Path
) -> None:
    for module in signing("x", "sha256")[1]:
        assert is_signed_module(module, pair[1], tmp_path)
        assert not is_signed_module(module, other[1], tmp_path)
        assert not is_signed_module(changed(module, 100), pair[1], tmp_path)
        assert not is_signed_module(module[:-1], pair[1], tmp_path)


def test_sign_modules_digest_is_that_of_the_configuration(signing: Signing, tmp_path: Path) -> None:
    for digest in ("sha256", "sha512"):
        (tmp_path / "m.ko").write_bytes(signing(digest, digest)[1][0])
        said = run.output(["modinfo", "-F", "sig_hashalgo", tmp_path / "m.ko"])
        assert said.strip() == digest


def test_sign_later_with_the_same_key_gives_the_same_bytes(
    signing: Signing, pair: Pair, tmp_path: Path
) -> None:
    first = signing("first", "sha256")
    key, cert = pair
    plain = _program(tmp_path)[0]
    argv: list[str | Path] = ["sbsign", "--key", key, "--cert", cert, "--output"]
    run.output([*argv, tmp_path / "then", plain])
    time.sleep(1.1)
    run.output([*argv, tmp_path / "now", plain])
    second = signing("second", "sha256")
    assert first[1] == second[1]
    assert first[0].read_bytes() == second[0].read_bytes()
    # Without the time that we set sbsign writes another.
    assert (tmp_path / "then").read_bytes() != (tmp_path / "now").read_bytes()


def test_sign_private_key_is_in_no_file(signing: Signing, pair: Pair, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_text(pair[0].read_text() + pair[1].read_text())
    found = sign.keys(str(both), str(both))
    assert found and PRIVATE not in found.cert and "BEGIN CERTIFICATE" in found.cert
    assert PRIVATE in both.read_text()
    both.unlink()
    signing("x", "sha256")
    secret = pair[0].read_bytes().splitlines()[1]
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and _has(path, secret)]
    assert _has(pair[0], secret)


def _has(path: Path, text: bytes) -> bool:
    return text in path.read_bytes()


# --- bad input ----------------------------------------------------------------------------


def _bad(directory: Path, pair: Pair, other: Pair) -> dict[str, tuple[list[str], str]]:
    """Arguments of make deb, and a part of the one line that they give."""
    (key, cert), stranger = map(str, pair), str(other[1])
    paths = {name: directory / f"{name}.pem" for name in ("ec", "ec-cert", "locked", "empty")}
    paths["empty"].touch()
    argv: list[str | Path] = ["openssl", "req", "-x509", "-noenc", "-subj", "/CN=x/"]
    ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    run.output([*argv, *ec, "-keyout", paths["ec"], "-out", paths["ec-cert"]])
    argv = ["openssl", "pkcs8", "-topk8", "-passout", "pass:x", "-in", key, "-out"]
    run.output([*argv, paths["locked"]])
    run.output(["openssl", "x509", "-in", cert, "-outform", "DER", "-out", directory / "der"])
    argv = ["openssl", "req", "-x509", "-noenc", "-subj", "/CN=x/", "-newkey"]
    more: dict[str, list[str | Path]] = {
        "small": ["rsa:1024"],
        "modules": ["rsa:2048", "-addext", f"extendedKeyUsage=codeSigning,{sign.MODULES_ONLY}"],
    }
    made: dict[str, list[str]] = {}
    for name, words in more.items():
        both = (directory / f"{name}-key", directory / f"{name}-cert")
        run.output([*argv, *words, "-keyout", both[0], "-out", both[1]])
        made[name] = ["--key", str(both[0]), "--cert", str(both[1])]
    for name, begin in (("old", "2010-01-01"), ("future", "2090-01-01")):
        dated = make_keys(directory, name, begin)
        made[name] = ["--key", str(dated[0]), "--cert", str(dated[1])]
    missing, empty = str(directory / "missing"), str(paths["empty"])
    signed = ["--key", key, "--cert", cert]
    return {
        "key-alone": (["--key", key], "KEY= without CERT="),
        "cert-alone": (["--cert", cert], "CERT= without KEY="),
        "key-missing": (["--key", missing, "--cert", cert], f"KEY={missing} is no file"),
        "cert-missing": (["--key", key, "--cert", missing], f"CERT={missing} is no file"),
        "key-directory": (["--key", str(directory), "--cert", cert], "is no file"),
        "key-empty": (["--key", empty, "--cert", cert], "does not sign"),
        "cert-empty": (["--key", key, "--cert", empty], "no certificate in PEM"),
        "cert-der": (["--key", key, "--cert", str(directory / "der")], "no certificate in PEM"),
        "swapped": (["--key", cert, "--cert", key], "no certificate in PEM"),
        "key-is-cert": (["--key", cert, "--cert", cert], "does not sign"),
        "locked": (["--key", str(paths["locked"]), "--cert", cert], "without a passphrase"),
        "stranger": (["--key", key, "--cert", stranger], "CERT does not belong to KEY="),
        "expired": (made["old"], "has expired"),
        "not-yet": (made["future"], "is valid from 2090-01-01"),
        "small": (made["small"], "is smaller than 2048 bits"),
        "modules-only": (made["modules"], "is for modules only"),
        "ec": (["--key", str(paths["ec"]), "--cert", str(paths["ec-cert"])], "is not RSA"),
        "no-kernel": ([*signed, "--flavour", "none"], "FLAVOUR=none is never signed"),
        "lab-kernel": ([*signed, "--flavour", "lab"], "FLAVOUR=lab is never signed"),
    }


def test_make_deb_bad_keys_say_one_line_and_build_nothing(
    directory: Path,
    pair: Pair,
    other: Pair,
    theirs: Debian,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    built: list[make.Plan] = []

    def deb(wanted: make.Plan) -> Path:
        built.append(wanted)
        raise LabError("built")

    monkeypatch.setattr(make, "deb", deb)
    monkeypatch.setattr(debian, "find", lambda *_: theirs)
    parser = cli._parser()  # takes seconds
    monkeypatch.setattr(cli, "_parser", lambda: parser)
    for name, (argv, said) in _bad(directory, pair, other).items():
        assert cli.main(["deb", *argv]) == 2, name
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: ") and said in line, name
        assert len(line.rpartition(": ")[2].split()) > 2, name  # what to do
    assert not built
    assert cli.main(["deb", "--key", str(pair[0]), "--cert", str(pair[1])]) == 1
    assert [plan.keys and plan.keys.key for plan in built] == [pair[0]]


def test_keys_unreadable_are_told(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, _mode: path != str(pair[0]))
    with pytest.raises(sign.BadKeys, match=r"^KEY=.* is no file that can be read: "):
        sign.keys(*map(str, pair))


def test_keys_none_are_asked_for() -> None:
    assert sign.keys(None, None) is None


def test_keys_of_a_certificate_for_any_code_are_taken(directory: Path) -> None:
    both = [str(directory / f"any-{word}") for word in ("key", "cert")]
    argv = ["openssl", "req", "-x509", "-noenc", "-subj", "/CN=x/", "-newkey", "rsa:2048"]
    argv += ["-addext", "extendedKeyUsage=codeSigning"]
    run.output([*argv, "-keyout", both[0], "-out", both[1]])
    assert sign.keys(*both)


def test_program_that_signs_is_refused_unless_apt_knows_its_checksum(
    theirs: Debian, loaded: sign.Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, name = tmp_path / "said", f"linux-kbuild-{theirs.abi}"
    spy = {f"usr/lib/{name}/scripts/sign-file": f'#!/bin/sh\ncat "$2" >{said}\n'}
    made = deb(tmp_path, name, theirs.version, spy)
    with monkeypatch.context() as patch:
        patch.setattr(source, "fetch", lambda *_: made)
        with pytest.raises(LabError, match="is not what apt's index has as linux-kb") as error:
            sign.check(loaded, theirs)
        assert error.value.todo and not said.exists()
        known = hashlib.sha256(made.read_bytes()).hexdigest()
        apt = tmp_path / "apt-cache"
        apt.write_text(f"#!/bin/sh\necho SHA256: {known}\n")
        apt.chmod(0o755)
        patch.setenv("PATH", str(tmp_path), prepend=":")
        sign.check(loaded, theirs)  # the spy runs once the index names it
    assert PRIVATE in said.read_text()
    sign.check(loaded, theirs)  # Debian's own


# --- what a package depends on ------------------------------------------------------------


@pytest.fixture
def key_of(monkeypatch: pytest.MonkeyPatch, theirs: Debian) -> Callable[..., str]:
    monkeypatch.setattr(Debian, "config", lambda _self: "CONFIG_A=y\n")
    monkeypatch.setattr(tree, "compose", lambda _version: "HEAD")
    monkeypatch.setattr(build, "inputs", lambda _commit: ["source"])
    return lambda keys: make.Plan("amd64", make.FROM_DEBIAN, theirs, keys).key()


def test_content_key_certificate_counts_and_private_key_does_not(
    key_of: Callable[..., str], loaded: sign.Keys, other: Pair, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere.pem"
    elsewhere.write_bytes(other[0].read_bytes())
    assert key_of(loaded) == key_of(sign.Keys(elsewhere, loaded.cert))
    keys = {key_of(None), key_of(loaded), key_of(sign.Keys(loaded.key, other[1].read_text()))}
    assert len(keys) == 3


def test_configuration_trusts_the_certificate_of_a_signed_package_only(
    loaded: sign.Keys, theirs: Debian, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged: list[str] = []

    def merge(_src: Path, obj: Path, texts: dict[str, str], _start: str) -> None:
        merged.append("".join(texts.values()))
        obj.mkdir(exist_ok=True)
        (obj / ".config").touch()

    monkeypatch.setattr(Debian, "config", lambda _self: "")
    monkeypatch.setattr(kconfig, "merge", merge)
    monkeypatch.setattr(gate, "check_config", lambda *_: None)
    for name, keys in (("signed", loaded), ("plain", None)):
        wanted = make.Plan("amd64", make.FROM_DEBIAN, theirs, keys)
        make._configure(wanted, tmp_path, tmp_path / name)
    assert merged[0] == merged[1] + 'CONFIG_SYSTEM_TRUSTED_KEYS="certs/builder.pem"\n'
    assert (tmp_path / "signed/certs/builder.pem").read_text() == loaded.cert
    assert not (tmp_path / "plain/certs").exists()


@pytest.mark.parametrize("given", [["KEY=a", "CERT=b"], []])
def test_make_target_deb_hands_keys_on(given: list[str]) -> None:
    argv = ["make", "-n", "deb", *given]
    said = subprocess.check_output(argv, cwd=cache.PROJECT, text=True, env={"PATH": "/usr/bin"})
    assert ('--key "a" --cert "b"' in said) == bool(given)
    assert ("--key" in said) == bool(given)
