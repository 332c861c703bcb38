# SPDX-License-Identifier: GPL-2.0
"""Dataclasses as JSON, and back: each value is checked by the type of its field."""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from typing import Any, TypeVar

T = TypeVar("T")


class Damaged(ValueError):
    """A document that is not of its type; the text names the place."""


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _object(kind: type, value: Any, place: str) -> Any:
    if not isinstance(value, dict):
        raise Damaged(f"{place} is no object")
    found = {}
    for one in dataclasses.fields(kind):
        below = f"{place}.{one.name}" if place else one.name
        if one.name in value and one.repr:
            found[one.name] = read(_hints(kind)[one.name], value[one.name], below)
        elif one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING:
            raise Damaged(f"{below} is missing")
    return kind(**found)


def read(kind: Any, value: Any, place: str = "") -> Any:
    """A value of a type, from JSON; raises Damaged.  Fields that the type lacks are left out."""
    if kind is Any:
        return value
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in args:
            return None
        return read(next(one for one in args if one is not type(None)), value, place)
    if origin is list and isinstance(value, list):
        return [read(args[0], one, f"{place}[{at}]") for at, one in enumerate(value)]
    if origin is dict and isinstance(value, dict):
        key = int if args[0] is int else str
        return {key(name): read(args[1], one, f"{place}.{name}") for name, one in value.items()}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _object(kind, value, place)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind or (kind is float and not math.isfinite(value)):
        raise Damaged(f"{place} is no {getattr(kind, '__name__', kind)}")
    return value


def decode(kind: type[T], value: Any) -> T:
    """A dataclass from JSON; raises Damaged."""
    found: T = read(kind, value)
    return found
