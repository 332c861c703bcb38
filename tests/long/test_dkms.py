# SPDX-License-Identifier: GPL-2.0
"""DKMS builds a module with the package of headers, and the package's kernel loads it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from lab import run, topology
from lab.deb import make, trial
from lab.deb.trial import Root

# What linux-kbuild and the headers depend on, and a module of Debian's that the image has
NEEDED = ("dkms", "gcc-12", "openssl", "pahole")
OTHER = "xfs"
OUT_OF_TREE = 1 << 12  # taint flag O
NAME = "hello"
SAID = "hello: tier is"
FILES = {
    "dkms.conf": f'PACKAGE_NAME="{NAME}"\nPACKAGE_VERSION="1"\nBUILT_MODULE_NAME[0]="{NAME}"\n'
    'DEST_MODULE_LOCATION[0]="/updates"\nAUTOINSTALL="yes"\n',
    "Makefile": f"obj-m := {NAME}.o\n",
    # Of our kernel: a header that a room adds, an option, a symbol
    f"{NAME}.c": f"""#include <linux/module.h>
#include <linux/tier_parts.h>

static int __init hello_init(void)
{{
	pr_info("{SAID} %d\\n", IS_ENABLED(CONFIG_TIER_PARTS));
	return 0;
}}
module_init(hello_init);

static void __exit hello_exit(void)
{{
}}
module_exit(hello_exit);
MODULE_DESCRIPTION("says hello");
MODULE_LICENSE("GPL");
""",
}


def crcs(module: Path) -> dict[str, str]:
    """Of the symbols that a module uses, their checksums."""
    said = run.output(["modprobe", "--dump-modversions", module])
    return {name: crc for crc, name in (line.split() for line in said.splitlines())}


@pytest.fixture(scope="module", params=["amd64", "cloud"])
def wanted(request: pytest.FixtureRequest) -> make.Plan:
    return make.plan(request.param)


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_module_of_dkms_is_built_and_loads(suite: str, wanted: make.Plan, tmp_path: Path) -> None:
    debs = Path(make.deb(wanted)).parent
    root = Root.unpack(trial.root_tar(suite, NEEDED), tmp_path / "root")
    for name, text in FILES.items():
        path = root.path / f"usr/src/{NAME}-1" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    root.run("dkms", "add", f"{NAME}/1")
    # The script of the headers calls DKMS, which builds for their release.
    for kind in ("image", "kbuild", "headers"):
        (deb,) = debs.glob(f"linux-{kind}-*.deb")
        root.install(deb)
    modules = root.path / "lib/modules" / wanted.release
    (built,) = (modules / "updates").rglob(f"{NAME}.ko*")
    (other,) = modules.rglob(f"{OTHER}.ko.xz")
    ours, theirs = (
        run.output(["modinfo", "-F", "vermagic", path]).split() for path in (built, other)
    )
    assert ours == [wanted.release, *theirs[1:]] and "modversions" in ours
    used, known = crcs(built), crcs(other)
    assert {"module_layout", "_printk"} <= used.keys() & known.keys()
    assert {name for name, crc in used.items() if known.get(name, crc) != crc} == set()

    done = trial.boot(
        root,
        wanted.release,
        topology.load("two-tier", fast_mb=512, slow_mb=512),
        tmp_path / "boot",
        modules=[NAME],
        timeout_s=900,
    )
    assert done.failed() == []
    assert done.complaints == []
    assert done.tainted == trial.UNSIGNED | OUT_OF_TREE
    log = (tmp_path / "boot/check.log").read_text(errors="replace")
    assert re.search(rf"\] {SAID} 1\r?$", log, re.MULTILINE)

    root.run("apt-get", "-y", "purge", f"linux-*-{wanted.release}")
    assert [name for name in root.names() if wanted.release in name] == []
    shutil.rmtree(root.path)


@pytest.mark.skipif(not shutil.which("lintian"), reason="there is no lintian")
@pytest.mark.parametrize("kind", ["image", "headers"])
def test_lintian_finds_nothing_in_kernels(kind: str, wanted: make.Plan) -> None:
    (deb,) = make.deb(wanted).parent.glob(f"linux-{kind}-*.deb")
    argv: list[str | Path] = ["lintian", "--allow-root", "--fail-on", "error,warning", deb]
    assert run.output(argv) == ""
