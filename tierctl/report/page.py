# SPDX-License-Identifier: GPL-2.0
"""The HTML of `tierctl report`: one file without scripts, for screens and paper."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

POLICY = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass
class Figure:
    """A picture, what it shows, the meaning of its colours, and a table with its head."""

    svg: str
    caption: str
    key: Sequence[tuple[str, str]] = ()  # class, words
    table: Sequence[Sequence[str]] = ()


@dataclass
class Section:
    """A question, and pictures that answer it."""

    title: str
    words: str
    figures: list[Figure] = field(default_factory=list)


def _table(rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in rows[0])
    body = ""
    for first, *rest in rows[1:]:
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in rest)
        body += f'<tr><th scope="row">{html.escape(first)}</th>{cells}</tr>'
    found = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="wide"><table>{found}</table></div>'


def _key(entries: Sequence[tuple[str, str]]) -> str:
    found = ""
    for kind, words in entries:
        line = f'<path class="{kind}" d="M1 6h18"/>'
        box = f'<rect class="{kind}" x=".5" y=".5" width="19" height="9"/>'
        shape = line if kind.startswith("line ") else box
        sample = f'<svg viewBox="0 0 20 10" aria-hidden="true">{shape}</svg>'
        found += f"<li>{sample}{html.escape(words)}</li>"
    return f'<ul class="key">{found}</ul>' if found else ""


def _figure(one: Figure) -> str:
    caption = f"<figcaption>{html.escape(one.caption)}</figcaption>"
    return f"<figure>{_key(one.key)}{one.svg}{caption}{_table(one.table)}</figure>"


def render(title: str, facts: Sequence[tuple[str, str]], sections: Sequence[Section]) -> str:
    """The file."""
    style = (Path(__file__).parents[1] / "report.css").read_text("utf-8")
    entries = "".join(
        f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>" for name, value in facts
    )
    body = "\n".join(
        f"<section><h2>{html.escape(one.title)}</h2>\n<p>{html.escape(one.words)}</p>\n"
        + "\n".join(_figure(each) for each in one.figures)
        + "</section>"
        for one in sections
    )
    return (
        "<!DOCTYPE html>\n<!-- SPDX-License-Identifier: GPL-2.0 -->\n"
        '<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{style}</style></head>\n"
        f"<body><header><h1>{html.escape(title)}</h1><dl>{entries}</dl></header>\n"
        f"<main>{body}</main></body></html>\n"
    )
