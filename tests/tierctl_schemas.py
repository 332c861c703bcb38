# SPDX-License-Identifier: GPL-2.0
"""JSON Schemas of what tierctl prints, made from its dataclasses, and a small validator.

    python3 tests/tierctl_schemas.py [KIND ...]     writes tierctl/schemas/KIND.json

The files say what readers may rely on: inside tierctl/1 a field is never renamed or removed.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import types
import typing
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
SCHEMAS = PROJECT / "tierctl/schemas"
DRAFT = "https://json-schema.org/draft/2020-12/schema"
BASE = {int: "integer", float: "number", str: "string", bool: "boolean", type(None): "null"}
NOTE = {
    "type": "object",
    "required": ["from", "state"],
    "properties": {
        "from": {"type": ["string", "null"]},
        "state": {"type": "string"},
        "todo": {"type": "string"},
        "age_s": {"type": "number"},
        "estimate": {"type": "boolean"},
    },
}


def _kinds() -> dict[str, Any]:
    """The dataclass of each kind of answer."""
    # A script has no path to tierctl before.
    from tierctl.checks import check  # noqa: PLC0415
    from tierctl.commands import capture, forecast, heat, profile, rows, top, why  # noqa: PLC0415
    from tierctl.explain import scene  # noqa: PLC0415
    from tierctl.model import addressmap, status  # noqa: PLC0415

    changes = [f"profile-{name}" for name in ("show", "diff", "apply", "verify", "revert")]
    return {
        "capture": capture.Captured,
        "doctor": check.Report,
        "explain": scene.Explained,
        "forecast": forecast.Forecast,
        "heat": heat.Heat,
        "heat-map": addressmap.AddressMap,
        "profile-list": profile.List,
        "status": status.Status,
        "top": top.Top,
        "top-processes": top.Processes,
        "why": why.Why,
        **dict.fromkeys(("set", "group-set", *changes), rows.Answer),
    }


def of_type(kind: Any) -> dict[str, Any]:
    """The schema of a type."""
    if kind is Any:
        return {}
    if kind in BASE:
        return {"type": BASE[kind]}
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        found = [of_type(one) for one in args]
        if all(set(one) == {"type"} and isinstance(one["type"], str) for one in found):
            return {"type": [one["type"] for one in found]}
        return {"anyOf": found}
    if origin is list:
        return {"type": "array", "items": of_type(args[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": of_type(args[1])}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = typing.get_type_hints(kind)
        names = [one.name for one in dataclasses.fields(kind) if one.repr]
        properties = {name: of_type(hints[name]) for name in names}
        return {"type": "object", "required": names, "properties": properties}
    raise TypeError(f"no schema for {kind}")


def schema(kind: str, data: Any) -> dict[str, Any]:
    """The schema of an answer."""
    properties = {
        "schema": {"const": "tierctl/1"},
        "kind": {"const": kind},
        "time": {"type": "number"},
        "host": {"type": ["string", "null"]},
        "kernel": {"type": ["string", "null"]},
        "sources": {"type": "object", "additionalProperties": NOTE},
        "data": of_type(data),
    }
    return {
        "$schema": DRAFT,
        "$comment": "SPDX-License-Identifier: GPL-2.0",
        "title": f"tierctl {kind}",
        "type": "object",
        "required": list(properties),
        "properties": properties,
    }


def documents() -> dict[Path, str]:
    """Each file, with what it should say."""
    return {
        SCHEMAS / f"{kind}.json": json.dumps(schema(kind, data), indent=1) + "\n"
        for kind, data in _kinds().items()
    }


def _is(value: Any, name: str) -> bool:
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    known = {"string": str, "boolean": bool, "null": type(None), "object": dict, "array": list}
    return isinstance(value, known[name])


def errors(value: Any, rule: dict[str, Any], place: str = "$") -> list[str]:
    """What is wrong with a value; a field that the schema lacks is wrong as well."""
    if "const" in rule and value != rule["const"]:
        return [f"{place} is {value!r}, not {rule['const']!r}"]
    if "enum" in rule and value not in rule["enum"]:
        return [f"{place} is {value!r}, not one of {rule['enum']}"]
    if "anyOf" in rule:
        tries = [errors(value, one, place) for one in rule["anyOf"]]
        return [] if [] in tries else min(tries, key=len)
    if "type" in rule:
        names = [rule["type"]] if isinstance(rule["type"], str) else rule["type"]
        if not any(_is(value, name) for name in names):
            return [f"{place} is {value!r}, not {' or '.join(names)}"]
    found = []
    if isinstance(value, dict) and ("properties" in rule or "additionalProperties" in rule):
        known = rule.get("properties", {})
        found += [f"{place} lacks {name}" for name in rule.get("required", []) if name not in value]
        for name, one in value.items():
            below = known.get(name, rule.get("additionalProperties"))
            inside = f"{place}.{name}"
            found += [f"{inside} is unknown"] if below is None else errors(one, below, inside)
    if isinstance(value, list) and "items" in rule:
        for at, one in enumerate(value):
            found += errors(one, rule["items"], f"{place}[{at}]")
    return found


def check(document: dict[str, Any]) -> list[str]:
    """What is wrong with an answer, by the file of its kind."""
    path = SCHEMAS / f"{document.get('kind')}.json"
    if not path.exists():
        return [f"there is no {path}"]
    return errors(document, json.loads(path.read_text("utf-8")))


if __name__ == "__main__":
    sys.path.insert(0, str(PROJECT))
    SCHEMAS.mkdir(exist_ok=True)
    for file, text in documents().items():
        if file.stem in sys.argv[1:] or not sys.argv[1:]:
            file.write_text(text, "utf-8")
            print(file)
