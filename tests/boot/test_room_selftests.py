# SPDX-License-Identifier: GPL-2.0
"""Every selftest program of every room is run by some test.

What needs arguments, machines or limits of its own has tests of its own, whose lists must be
complete.  The programs of a room that has none are run here, one after the other.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import test_migrate_batch
import test_migrc_torture
import test_selftests
import test_zap_selftest
from outcomes import report

from lab import manifest, selftests, topology, tree
from lab.build import KernelImage
from lab.selftests import Program

_TIERING = {
    program.name
    for programs in (
        test_selftests.TIER,
        test_selftests.EDGE,
        test_selftests.TARGET,
        test_selftests.VICTIM,
        test_selftests.HOTPLUG,
    )
    for program in programs
}
_KMMSCAND = {name for name in _TIERING if name.startswith("kmmscand_")}
# Directories that other tests run, and their programs
ELSEWHERE = {
    "tier": _TIERING - _KMMSCAND,
    "kmmscand": _KMMSCAND,
    "migrc": set(test_migrc_torture.PROGRAMS),
    "migrate_batch": {
        test_migrate_batch.TEST.name,
        test_migrate_batch.TROUBLE.name,
        test_migrate_batch.RECLAIM.name,
    },
    "zap_batch": {test_zap_selftest.TEST.name},
}
# Those that are run here
HERE = [name for name in manifest.selftest_directories() if name not in ELSEWHERE]


def _file(version: str, directory: str, name: str) -> str:
    path = f"{manifest.SELFTESTS}/{directory}/{name}"
    return tree.git("cat-file", "-p", f"{tree.compose(version)}:{path}")


def programs(makefile: str) -> set[str]:
    """What a Makefile of selftests makes."""
    lists = re.findall(
        r"^TEST_GEN_PROGS\s*[+:]?=((?:.*\\\n)*.*)$", makefile.replace("\t", " "), re.MULTILINE
    )
    return {word for text in lists for word in text.replace("\\\n", " ").split()}


def test_makefiles_are_understood() -> None:
    text = "A = b\nTEST_GEN_PROGS := one two \\\n\t\t  three\nB := c\nTEST_GEN_PROGS += four\n"
    assert programs(text) == {"one", "two", "three", "four"}


@pytest.mark.parametrize("directory", ELSEWHERE)
def test_lists_are_complete(directory: str, version: str) -> None:
    assert ELSEWHERE[directory] == programs(_file(version, directory, "Makefile"))


@pytest.mark.parametrize("flavour", ["torture", "debug"])
@pytest.mark.parametrize("directory", HERE)
def test_selftests_of_a_room(
    directory: str,
    flavour: str,
    request: pytest.FixtureRequest,
    version: str,
    out_dir: Path,
    subtests: pytest.Subtests,
) -> None:
    kernel: KernelImage = request.getfixturevalue(f"{flavour}_kernel")
    limit = re.search(r"^timeout=(\d+)$", _file(version, directory, "settings"), re.MULTILINE)
    assert limit, f"{directory}/settings has no timeout=SECONDS"
    wanted = tuple(
        Program(name, timeout_s=int(limit[1]))
        for name in sorted(programs(_file(version, directory, "Makefile")))
    )
    built = selftests.programs(kernel, directory)
    machine = topology.load("two-tier", fast_mb=768, slow_mb=512)
    report(subtests, selftests.run_programs(kernel, built, wanted, machine, out_dir))


def test_a_boot_with_tier_off_lets_nothing_start(
    torture_kernel: KernelImage, out_dir: Path, subtests: pytest.Subtests
) -> None:
    """The cases that only such a boot has; without it they skip themselves."""
    built = selftests.programs(torture_kernel, "tier_parts")
    cases = selftests.run_programs(
        torture_kernel,
        built,
        (Program("parts_test", "blocked", timeout_s=60),),
        topology.load("two-tier"),
        out_dir,
        prepare="true",
        append="tier=on tier=off",  # the last one counts
    )
    report(subtests, cases, may_skip=())
