# SPDX-License-Identifier: GPL-2.0
"""The HTML of `tierctl report`: one file without scripts, for screens and paper."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

POLICY = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass
class Section:
    """A question, and figures in HTML that answer it."""

    title: str
    words: str
    figures: list[str] = field(default_factory=list)


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table; the first row and the first column are heads."""
    head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in rows[0])
    body = ""
    for first, *rest in rows[1:]:
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in rest)
        body += f'<tr><th scope="row">{html.escape(first)}</th>{cells}</tr>'
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def bars(rows: Sequence[tuple[str, Sequence[tuple[str, float, str]] | None]]) -> str:
    """Bars of segments: class, percent and words; None: unknown."""
    body = ""
    for label, row in rows:
        bar = "unknown"
        if row is not None:
            bar = "".join(
                f'<i class="{kind}" style="width:{width:.2f}%">{words * (width > 8)}</i>'
                for kind, width, words in row
            )
        body += f'<tr><th scope="row">{html.escape(label)}</th><td>{bar}</td></tr>'
    return f'<table class="bars">{body}</table>'


def figure(body: str, caption: str, key: Sequence[tuple[str, str]] = ()) -> str:
    """A picture or tables, what they show, and the meaning of colours by class."""
    found = "".join(f'<li><i class="{kind}"></i>{html.escape(words)}</li>' for kind, words in key)
    colours = f'<ul class="key">{found}</ul>' if found else ""
    return f"<figure>{colours}{body}<figcaption>{html.escape(caption)}</figcaption></figure>"


def render(title: str, facts: Sequence[tuple[str, str]], sections: Sequence[Section]) -> str:
    style = (Path(__file__).parents[1] / "report.css").read_text("utf-8")
    entries = "".join(
        f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>" for name, value in facts
    )
    body = "\n".join(
        f"<section><h2>{html.escape(one.title)}</h2>\n<p>{html.escape(one.words)}</p>\n"
        + "\n".join(one.figures)
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
