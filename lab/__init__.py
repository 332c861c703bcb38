# SPDX-License-Identifier: GPL-2.0
"""The bench of tiershift: build, boot, measure, compare, report."""
