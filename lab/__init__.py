# SPDX-License-Identifier: GPL-2.0
"""The bench of tiershift: build, boot, measure, compare, report."""

import os
from pathlib import Path

# cron and services may have no HOME; QEMU's wrapper and redis look for it.
os.environ.setdefault("HOME", str(Path.home()))
