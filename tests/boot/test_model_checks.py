# SPDX-License-Identifier: GPL-2.0
"""Spin verifies the Promela models of the rooms: they hold, they are about something, and every
mutation of them is noticed.  Nothing is booted; the first time takes some three minutes of one CPU.

A property that holds because nothing happens is worthless.  So each statement of a model
must have been executed, each REACHED() situation must come up (-DREACH makes it an error,
which must be found), and each switch must violate the invariants that the model names."""

from __future__ import annotations

import pytest

from lab import models

MODELS = {model.name: model for model in models.load_all()}


@pytest.mark.parametrize(
    ("name", "define"),
    [(model.name, define) for model in MODELS.values() for define in model.defines()],
)
def test_model(name: str, define: str) -> None:
    assert models.holds_as_before(MODELS[name], define) == []
