# SPDX-License-Identifier: GPL-2.0
"""``python -m lab COMMAND``: what the Makefile calls."""

from lab.cli import main

raise SystemExit(main())
