# SPDX-License-Identifier: GPL-2.0
"""tierctl: show and control memory tiering of a Linux machine."""

__version__ = "0.1"
