# SPDX-License-Identifier: GPL-2.0
"""Fixtures: kernels (built on demand, cached by content) and machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import build, source, topology
from lab.build import KernelImage
from lab.topology import Topology

# What takes longest begins first, so that two workers end together.
LONGEST_FIRST = ("test_selftests.py", "test_small_scenario.py")
LONG = Path(__file__).parent / "long"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order by the expected time; keep what shares a git work tree on one worker."""

    def rank(item: pytest.Item) -> int:
        name = item.path.name
        return LONGEST_FIRST.index(name) if name in LONGEST_FIRST else len(LONGEST_FIRST)

    items.sort(key=rank)
    for item in items:
        if LONG in item.path.parents:
            item.add_marker(pytest.mark.long)
        if item.path.name in ("test_rooms.py", "test_kernel_static.py"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(scope="session")
def base_kernel() -> KernelImage:
    """The unmodified kernel."""
    return build.kernel("base")


@pytest.fixture(scope="session")
def tiershift_kernel() -> KernelImage:
    """The kernel with all rooms, configured for measuring."""
    return build.kernel("tiershift")


@pytest.fixture(scope="session")
def torture_kernel() -> KernelImage:
    """The one for measuring, with the switches that break MIGRC's rules."""
    return build.kernel("torture")


@pytest.fixture(scope="session")
def debug_kernel() -> KernelImage:
    """The kernel with all rooms and every check switched on."""
    return build.kernel("debug")


@pytest.fixture(scope="session")
def version() -> str:
    """The base version that is built."""
    return source.newest()


@pytest.fixture
def two_tier() -> Topology:
    """The default machine."""
    return topology.load("two-tier")


@pytest.fixture
def out_dir(tmp_path: Path) -> Path:
    """A directory that a guest may write to."""
    return tmp_path / "out"
