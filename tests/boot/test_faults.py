# SPDX-License-Identifier: GPL-2.0
"""Rules that are broken on purpose: the selftest that guards a rule must fail, and say why.

room.toml has the rules and their tests, see lab/faults.py.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lab import faults, manifest
from lab.build import KernelImage
from lab.faults import Machine, Trial

MACHINES = faults.machines()
# Machines that `make test` boots
QUICK = [name for name in MACHINES if faults.trials(name, long=False)]


def _missed(
    kernel: KernelImage, machine: Machine, wanted: list[Trial], out_dir: Path, seed: int = 1
) -> list[Trial]:
    found = faults.missed(kernel, machine, wanted, out_dir, seed)
    # The kernel has the faults that are declared, and no other.
    names = set((out_dir / "faults").read_text().split())
    assert names == {fault.name for fault in manifest.faults()}
    return found


@pytest.fixture
def kernel(name: str, request: pytest.FixtureRequest) -> KernelImage:
    """The one for a machine."""
    image: KernelImage = request.getfixturevalue(f"{MACHINES[name].flavour}_kernel")
    return image


@pytest.mark.parametrize("name", QUICK)
def test_broken_on_purpose_is_noticed(name: str, kernel: KernelImage, out_dir: Path) -> None:
    """What does not take long."""
    machine = MACHINES[name]
    missed = _missed(kernel, machine, faults.trials(name, long=False), out_dir)
    if missed:
        missed = _missed(kernel, machine, missed, out_dir / "again")
    assert [one.label for one in missed] == []


@pytest.mark.long
@pytest.mark.parametrize("name", MACHINES)
def test_all_broken_on_purpose_is_noticed(name: str, kernel: KernelImage, out_dir: Path) -> None:
    """Every test, and with every seed where a machine has several."""
    machine, wanted = MACHINES[name], faults.trials(name, long=True)
    if machine.rounds == 1:
        missed = _missed(kernel, machine, wanted, out_dir)
        if missed:
            missed = _missed(kernel, machine, missed, out_dir / "again")
        assert [one.label for one in missed] == []
        return
    times: Counter[str] = Counter()
    for seed in range(1, machine.rounds + 1):
        found = _missed(kernel, machine, wanted, out_dir / f"seed-{seed}", seed)
        times.update(one.label for one in found)
    print(f"missed in some of {machine.rounds} rounds: {dict(times)}")
    most = (1 - faults.ENOUGH) * machine.rounds
    assert {label: n for label, n in times.items() if n > most + 1e-9} == {}


def test_no_fault_is_without_a_test() -> None:
    assert faults.untested(manifest.faults()) == set()
