# SPDX-License-Identifier: GPL-2.0
"""Fixtures: kernels (built on demand, cached by content) and machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import build, source, topology
from lab.build import KernelImage
from lab.topology import Topology


@pytest.fixture(scope="session")
def base_kernel() -> KernelImage:
    """The unmodified kernel."""
    return build.kernel("base")


@pytest.fixture(scope="session")
def tiershift_kernel() -> KernelImage:
    """The kernel with all rooms, configured for measuring."""
    return build.kernel("tiershift")


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
