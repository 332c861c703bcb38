# SPDX-License-Identifier: GPL-2.0
"""A signed package under Secure Boot, and without it.

As on a machine, the firmware trusts shim, shim trusts Debian's grub and the builder's
certificate, and grub starts what shim trusts.  The firmware is OVMF with its own test key, which
signs shim.  The certificate is enrolled as MokManager enrolls it: in the variable MokList.
"""

from __future__ import annotations

import lzma
import re
import shutil
import struct
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from signing import changed, is_signed_image, is_signed_module, make_keys

from lab import run, topology
from lab.deb import debian, make, modules, sign, trial
from lab.deb.trial import Root

FIRMWARE = Path("/usr/share/OVMF")
SNAKEOIL = Path("/usr/share/ovmf/PkKek-1-snakeoil")  # .key, .pem: the owner of the firmware
SHIM = Path("/usr/lib/shim/shimx64.efi")
GRUB = Path("/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed")
BUSYBOX = Path("/bin/busybox")
SHIM_LOCK = uuid.UUID("605dab50-e046-4300-abb6-3dd810dd8b23")
MODULE = "dummy"  # of Debian, as built by Debian
REFUSED = ("unsigned", "stranger", "changed")
TIMEOUT_S = 300
# What lies before a variable in OVMF's file: mark, state, attributes, ... sizes of name and data
VARIABLE = struct.Struct("<HBxI28xII16s")
STORE = 28  # bytes of the header of all variables
MARK, ADDED, KEPT_FOR_BOOT = 0x55AA, 0x3F, 3

GRUB_CFG = f"""\
for name in {" ".join(REFUSED)}; do
	if linux /$name; then echo "kernel $name loads"; else echo "kernel $name refused"; fi
done
if linux /signed console=ttyS0 panic=-1; then
	echo "kernel signed loads"
	initrd /initrd
	boot
fi
echo "kernel signed refused"
halt
"""
INIT = f"""\
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t securityfs none /sys/kernel/security
for name in {" ".join(REFUSED)} signed; do
	word=refused
	insmod /$name.ko && rmmod {MODULE} && word=loads
	echo "module $name $word"
done
echo "lockdown $(cat /sys/kernel/security/lockdown)"
echo "tainted $(cat /proc/sys/kernel/tainted)"
poweroff -f
"""


@dataclass(frozen=True)
class Built:
    """A signed package, and what signed it."""

    deb: Path
    release: str
    key: Path
    cert: Path
    image: Path
    module: bytes  # unpacked


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_keys(tmp_path_factory.mktemp("keys"), "builder")


@pytest.fixture(scope="module")
def built(keys: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """Leaves no package: `make repo` would publish it."""
    wanted = make.plan("amd64", keys=sign.keys(*map(str, keys)))
    deb = make.deb(wanted)
    yield unpack(deb, wanted.release, keys, tmp_path_factory.mktemp("unpacked"))
    shutil.rmtree(deb.parent)


def unpack(deb: Path, release: str, keys: tuple[Path, Path], into: Path) -> Built:
    run.output(["dpkg-deb", "--extract", deb, into])
    (module,) = into.rglob(f"{MODULE}.ko.xz")
    image = into / f"boot/vmlinuz-{release}"
    return Built(deb, release, *keys, image, lzma.decompress(module.read_bytes()))


def enrolled(store: bytes, name: str, owner: uuid.UUID, data: bytes) -> bytes:
    """OVMF's file of variables with one more, which only boot programs can see."""
    (volume,) = struct.unpack_from("<H", store, 0x30)  # the length of its header
    at = volume + STORE
    while True:
        mark, _, _, name_size, data_size, _ = VARIABLE.unpack_from(store, at)
        if mark != MARK:
            break
        at += -(-(VARIABLE.size + name_size + data_size) // 4) * 4
    text = f"{name}\0".encode("utf-16-le")
    head = VARIABLE.pack(MARK, ADDED, KEPT_FOR_BOOT, len(text), len(data), owner.bytes_le)
    new = head + text + data
    assert set(store[at : at + len(new)]) == {0xFF}  # erased flash
    return store[:at] + new + store[at + len(new) :]


def firmware_variables(cert: Path, work: Path) -> Path:
    """Of a machine that has the certificate as its owner's key."""
    der, signatures, path = work / "cert.der", work / "cert.esl", work / "variables"
    run.output(["openssl", "x509", "-in", cert, "-outform", "DER", "-out", der])
    owner = ["--owner", str(SHIM_LOCK), "--type", "x509"]
    run.output(["sbsiglist", *owner, "--output", signatures, der])
    store = (FIRMWARE / "OVMF_VARS_4M.snakeoil.fd").read_bytes()
    path.write_bytes(enrolled(store, "MokList", SHIM_LOCK, signatures.read_bytes()))
    return path


def shim(work: Path) -> Path:
    """Signed by the firmware's key, as Microsoft signs Debian's."""
    key, path = work / "firmware.pem", work / "shim.efi"
    theirs = ["-in", str(SNAKEOIL.with_suffix(".key")), "-passin", "pass:snakeoil"]
    run.output(["openssl", "pkey", *theirs, "-out", key])
    path.write_bytes(SHIM.read_bytes())
    sign.sign_image(path, key, SNAKEOIL.with_suffix(".pem"))
    return path


def initrd(found: Mapping[str, bytes], work: Path) -> Path:
    top = work / "initrd"
    for name in ("bin", "proc", "sys"):
        (top / name).mkdir(parents=True)
    (top / "bin/busybox").write_bytes(BUSYBOX.read_bytes())
    (top / "init").write_text(INIT, encoding="utf-8")
    for name in ("bin/busybox", "init"):
        (top / name).chmod(0o755)
    for name, module in found.items():
        (top / f"{name}.ko").write_bytes(module)
    names = "\n".join(str(path.relative_to(top)) for path in top.rglob("*"))
    argv = ["cpio", "--quiet", "-o", "-H", "newc", "-O"]
    run.output([*argv, str(work / "initrd.cpio")], cwd=top, stdin=names)
    return work / "initrd.cpio"


def disk(files: Mapping[str, Path], work: Path) -> Path:
    path = work / "disk"
    sectors = sum(file.stat().st_size for file in files.values()) // 512 * 5 // 4
    run.output(["mformat", "-i", path, "-C", "-F", "-T", str(sectors), "::"])
    run.output(["mmd", "-i", path, "::/EFI", "::/EFI/BOOT", "::/EFI/debian"])
    for name, file in files.items():
        run.output(["mcopy", "-i", path, file, f"::/{name}"])
    return path


def boot(variables: Path, image: Path, work: Path) -> str:
    """What the machine says on its serial line."""
    console = work / "console.log"
    argv = ["qemu-system-x86_64", "-machine", "q35,smm=on", "-cpu", "max", "-m", "1024M"]
    argv += ["-global", "driver=cfi.pflash01,property=secure,value=on"]
    argv += ["-global", "ICH9-LPC.disable_s3=1", "-accel", "tcg,thread=multi", "-smp", "2"]
    argv += ["-display", "none", "-no-reboot", "-nodefaults", "-serial", f"file:{console}"]
    code = FIRMWARE / "OVMF_CODE_4M.secboot.fd"
    argv += ["-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={code}"]
    argv += ["-drive", f"if=pflash,unit=1,format=raw,file={variables}"]
    argv += ["-drive", f"if=virtio,format=raw,file={image}"]
    subprocess.run(argv, check=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
    return console.read_text(errors="replace")


def variants(built: Built, work: Path) -> tuple[dict[str, Path], dict[str, bytes]]:
    """Kernels and modules: as signed, and by reasons to refuse them."""
    stranger = make_keys(work, "stranger")
    kernels = {name: work / name for name in (*REFUSED, "signed")}
    signed = built.image.read_bytes()
    for path in kernels.values():
        path.write_bytes(signed)
    for name in ("unsigned", "stranger"):
        run.output(["sbattach", "--remove", kernels[name]])
    sign.sign_image(kernels["stranger"], *stranger)
    kernels["changed"].write_bytes(changed(signed, len(signed) // 2))
    module = work / "m.ko"
    module.write_bytes(built.module)
    modules.strip(module)
    unsigned = module.read_bytes()
    program = debian.find("amd64").sign_file(work / "kbuild")
    sign.sign_module(module, program, "sha256", *stranger)
    found = {"unsigned": unsigned, "stranger": module.read_bytes(), "signed": built.module}
    return kernels, found | {"changed": changed(built.module, len(unsigned) // 2)}


def try_secure_boot(built: Built, work: Path, cert: Path) -> str:
    """Boot a machine that trusts a certificate; what it says."""
    kernels, found = variants(built, work)
    (work / "grub.cfg").write_text(GRUB_CFG, encoding="utf-8")
    files = {
        "EFI/BOOT/BOOTX64.EFI": shim(work),
        "EFI/BOOT/grubx64.efi": GRUB,
        "EFI/debian/grub.cfg": work / "grub.cfg",
        "initrd": initrd(found, work),
        **kernels,
    }
    return boot(firmware_variables(cert, work), disk(files, work), work)


def verdicts(said: str, kind: str) -> dict[str, str]:
    """Of kernels or modules by name: loads or refused."""
    return dict(re.findall(rf"{kind} (\w+) (loads|refused)", said))


def test_secure_boot_signed_package_boots_locked_and_others_are_refused(
    built: Built, tmp_path: Path
) -> None:
    said = try_secure_boot(built, tmp_path, built.cert)
    expected = dict.fromkeys(REFUSED, "refused") | {"signed": "loads"}
    assert verdicts(said, "kernel") == expected
    assert said.count("bad shim signature") == len(REFUSED)
    assert "Secure boot enabled" in said
    assert f"Linux version {built.release} " in said
    assert "lockdown none [integrity] confidentiality" in said
    assert verdicts(said, "module") == expected
    assert "Loading of unsigned module is rejected" in said
    assert "Loading of module with unavailable key is rejected" in said
    assert re.search(r"^tainted 0\r?$", said, re.MULTILINE)


def test_secure_boot_certificate_of_another_key_enrolled_starts_no_kernel(
    built: Built, tmp_path: Path
) -> None:
    said = try_secure_boot(built, tmp_path, make_keys(tmp_path, "elsewhere")[1])
    assert verdicts(said, "kernel") == dict.fromkeys((*REFUSED, "signed"), "refused")
    assert "Linux version" not in said


def test_signed_package_without_secure_boot_sets_no_taint_flag(
    built: Built, tmp_path: Path
) -> None:
    root = Root.unpack(trial.root_tar("bookworm"), tmp_path / "root")
    root.install(built.deb)
    machine = topology.load("two-tier", fast_mb=1024, slow_mb=1024)
    done = trial.boot(
        root, built.release, machine, tmp_path / "boot", modules=["xfs", "nfs"], timeout_s=900
    )
    assert done.failed() == []
    assert done.tainted == 0


def test_signed_package_every_module_has_its_signature(built: Built, tmp_path: Path) -> None:
    assert is_signed_image(built.image, built.cert)
    found = [*built.image.parent.parent.glob("lib/modules/*/kernel/**/*.ko.xz")]
    assert len(found) > 3000
    for path in found:
        assert is_signed_module(lzma.decompress(path.read_bytes()), built.cert, tmp_path), path
