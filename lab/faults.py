# SPDX-License-Identifier: GPL-2.0
"""Rules that debug kernels can break, and the tests that must notice.

Each [[fault]] of a room.toml is a file in /sys/kernel/debug/tier/faults/.  Each of its tests is a
selftest that fails while the file is Y, and what the selftest says then.  A test that is killed,
crashes or says nothing has not noticed.

Tests of one machine share a boot, in the order of the rooms.  What depends on chance is tried
again: a host that is busy loses a race, and hardly twice.  A machine with several rounds boots
once for each seed, and a test has to notice in ENOUGH of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import ktap, manifest, rooms, selftests, tier, topology
from lab.build import KernelImage
from lab.manifest import Fault, FaultTest
from lab.selftests import Program
from lab.topology import Topology

DIRECTORY = f"{tier.DEBUG}/faults"
# Cases that stand for what a program has not said, see lab/ktap.py
NOT_A_CASE = ("plan", "exit code")
ENOUGH = 0.9


def _swap(size: str) -> str:
    return f"""echo {size} > /sys/block/zram0/disksize
mkswap /dev/zram0 > /dev/null
swapon /dev/zram0"""


@dataclass(frozen=True)
class Machine:
    """Where tests run, and what is done before the first one and before each."""

    flavour: str  # of the kernel
    topology: Topology
    prepare: str = "true"
    before: str = "true"
    append: str = ""  # to the kernel's command line
    timeout_s: int = 200  # of a test
    rounds: int = 1  # with a seed each, if all tests are run


def machines() -> dict[str, Machine]:
    """By the name that a fault's test has in room.toml."""
    two_tier = topology.load("two-tier", fast_mb=768, slow_mb=512)
    # A race that is lost ends at once.
    races = "export POLICY_SECONDS=30"
    return {
        "two-tier": Machine("debug", two_tier, before=races),
        "two-sockets": Machine(
            "debug",
            topology.load("two-sockets", fast0_mb=256, fast1_mb=256, slow0_mb=256, slow1_mb=256),
            before=races,
        ),
        "swap": Machine("torture", two_tier, prepare=_swap("128M"), timeout_s=300),
        "guests": Machine(
            "torture",
            two_tier,
            prepare=f"{_swap('256M')}\necho y > /sys/kernel/mm/lru_gen/enabled",
            timeout_s=300,
        ),
        # The test, its helper, and two CPUs that readers and writers have for themselves.  The
        # kernel's own checks leave the find to the test, which goes on for so long if it finds
        # nothing, and for 30 s more if it has not met what it is for.
        "readers": Machine(
            "torture",
            topology.load("two-tier", fast_cpus=4, fast_mb=512, slow_mb=512),
            before=f"echo N > {tier.DEBUG}/defer/check; export MIGRC_SECONDS=12",
            append="isolcpus=2,3",
            timeout_s=120,
            rounds=10,
        ),
    }


def only(*names: str) -> str:
    """Shell: these rules are broken and no other."""
    lines = [f"echo N | tee {DIRECTORY}/* > /dev/null"]
    return "; ".join((*lines, *(f"echo Y > {tier.fault(name)}" for name in names)))


@dataclass(frozen=True)
class Trial:
    """A test of a fault."""

    fault: str
    test: FaultTest

    @property
    def names(self) -> tuple[str, ...]:
        """The faults that are set."""
        return (self.fault, *self.test.also)

    @property
    def directory(self) -> str:
        """Of the program, below tools/testing/selftests."""
        return self.test.program.partition("/")[0]

    @property
    def program(self) -> str:
        """The program's name."""
        return self.test.program.partition("/")[2]

    @property
    def label(self) -> str:
        """Names the results."""
        words = f"{'+'.join(self.names)}-{self.program}-{self.test.args}"
        return re.sub(r"[^\w.+-]+", "_", words)

    def noticed(self, log: str, code: int) -> bool:
        """Has the test failed, and for the reason that it is for?"""
        cases = ktap.parse(log, code)
        if [case.outcome for case in cases] != ["fail"] or cases[0].name in NOT_A_CASE:
            return False
        # Options name a case as the harness does.
        name = self.test.args.split()[-1] if self.test.args.startswith("-") else ""
        said = re.search(self.test.says, log, re.MULTILINE)
        return cases[0].name.endswith(name) and said is not None


def trials(machine: str, *, long: bool) -> list[Trial]:
    """What runs on a machine; ``long`` with those that take long."""
    found = [Trial(fault.name, test) for fault in manifest.faults() for test in fault.tests]
    return [
        one
        for one in found
        if one.test.program and one.test.machine == machine and (long or not one.test.long)
    ]


def untested(faults: Sequence[Fault]) -> set[str]:
    """Faults that no test sets."""
    names = {fault.name for fault in faults if fault.tests}
    set_too = {name for fault in faults for test in fault.tests for name in test.also}
    return {fault.name for fault in faults} - names - set_too


def kvm_programs() -> list[str]:
    """Ours, of the many in tools/testing/selftests/kvm."""
    return sorted(path.stem for path in rooms.LINUX.glob(f"*/files/{manifest.SELFTESTS}/kvm/*.c"))


def built(kernel: KernelImage, directory: str) -> Path:
    """Where the programs of a directory are, built."""
    if directory == "kvm":
        return selftests.programs(kernel, directory, names=kvm_programs())
    together = selftests.TIER if directory in selftests.TIER else (directory,)
    return selftests.programs(kernel, *together)


def program(trial: Trial, machine: Machine, place: Path, seed: int = 1) -> Program:
    """For selftests.run_programs(), in a directory beside ``place``."""
    lines = (only(*trial.names), machine.before, f"export MIGRC_SEED={seed}", trial.test.before)
    return Program(
        f"../{place.name}/{trial.program}",
        trial.test.args,
        timeout_s=machine.timeout_s,
        before="; ".join(line for line in lines if line),
        label=trial.label,
    )


def missed(
    kernel: KernelImage, machine: Machine, wanted: Sequence[Trial], out_dir: Path, seed: int = 1
) -> list[Trial]:
    """Run tests in one boot: those that have not noticed.  ``out_dir`` has a list of the faults."""
    places = {name: built(kernel, name) for name in dict.fromkeys(one.directory for one in wanted)}
    selftests.run_programs(
        kernel,
        next(iter(places.values())),
        tuple(program(one, machine, places[one.directory], seed) for one in wanted),
        machine.topology,
        out_dir,
        prepare=f"trap '{only()}' EXIT\nls {DIRECTORY} > {out_dir}/faults\n{machine.prepare}",
        append=machine.append,
    )
    return [one for one in wanted if not _noticed(one, out_dir)]


def _noticed(trial: Trial, out_dir: Path) -> bool:
    log, code = (out_dir / f"{trial.label}.{kind}" for kind in ("log", "code"))
    return trial.noticed(log.read_text(errors="replace"), int(code.read_text()))
