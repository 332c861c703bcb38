# SPDX-License-Identifier: GPL-2.0
"""All checks of `tierctl doctor`, and those that `status` makes as well."""

from __future__ import annotations

from tierctl.checks import moves, nodes, system
from tierctl.checks.check import Check

ALL: list[Check] = [*nodes.CHECKS, *moves.CHECKS, *system.CHECKS]
QUICK = [one for one in ALL if one.quick]
