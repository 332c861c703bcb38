# SPDX-License-Identifier: GPL-2.0
"""Results: the ledger, what each study declares, and the pages that are made of them."""
