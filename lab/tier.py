# SPDX-License-Identifier: GPL-2.0
"""The kernel's directory for memory tiering: /sys/kernel/mm/tier.

A part works while tier/enabled and the part's own ``enabled`` are 1.  After boot tier/enabled is
0, and PARTS has what the parts begin with.

A guest of the lab begins otherwise (BEGIN): tier/enabled is 1 and each part is 0.  So nothing
works, and one write to a part's ``enabled`` switches that part alone.
"""

from __future__ import annotations

from lab.errors import LabError

DIRECTORY = "/sys/kernel/mm/tier"
# Of debug kernels: what each part counts, and a switch for each rule that can be broken
DEBUG = "/sys/kernel/debug/tier"
# The parts, and whether each works after one write of 1 to tier/enabled
PARTS = {
    "scan": True,
    "promote": True,
    "demote": True,
    "batch": True,
    "zap": True,
    "age": True,
    "defer": False,
    "postpone": False,
}
_NONE = f'for switch in {DIRECTORY}/*/enabled; do echo 0 > "$switch"; done'
_ALL = f"echo 1 > {DIRECTORY}/enabled"

# What a guest's shell does first.  A kernel without the directory has nothing to prepare, and
# who boots with tier= wants the parts as the kernel leaves them.  No other program is started.
BEGIN = f"""\
if [ -d {DIRECTORY} ]; then
	read -r line < /proc/cmdline
	case " $line" in
	*" tier="*) ;;
	*) {_NONE}; {_ALL} ;;
	esac
fi
"""


def file(part: str, name: str) -> str:
    """The path of a part's file."""
    if part not in PARTS:
        raise LabError(f"memory tiering has no part {part!r}", "there are: " + ", ".join(PARTS))
    return f"{DIRECTORY}/{part}/{name}"


def enabled(part: str) -> str:
    """The path of a part's switch."""
    return file(part, "enabled")


def fault(name: str) -> str:
    """The path of the switch that breaks a rule, PART_RULE, on debug kernels."""
    return f"{DEBUG}/faults/{name}"


def alone(*parts: str) -> str:
    """Shell lines after which these parts work, and no other one."""
    return "\n".join((_NONE, *(f"echo 1 > {enabled(part)}" for part in parts), _ALL))
