# SPDX-License-Identifier: GPL-2.0
"""All checks of `tierctl doctor`, and those that `status` makes as well."""

from tierctl.checks import moves, nodes, system

ALL = [*nodes.CHECKS, *moves.CHECKS, *system.CHECKS]
QUICK = [one for one in ALL if one.quick]
