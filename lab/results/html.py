# SPDX-License-Identifier: GPL-2.0
"""report.html: everything that the ledger holds, in one file that needs no network."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from lab import report
from lab.results import headline, ledger, page
from lab.results.status import State
from lab.results.study import Study, goal_text, tables

STYLE = """
:root { --met: #1b7f3b; --missed: #b3261e; --unseen: #6b6b6b; --stale: #9a6700; }
* { box-sizing: border-box; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 76rem;
       color: #1c1c1c; background: #fff; }
h1 { font-size: 1.5rem; margin: .2em 0; }
h2 { font-size: 1.2rem; margin: 2.2em 0 .3em; border-top: 1px solid #ddd; padding-top: .8em; }
h3 { font-size: 1rem; margin: 1.2em 0 .3em; }
p, li { max-width: 60rem; }
.scroll { overflow-x: auto; margin: .5em 0; }
table { border-collapse: collapse; font-size: 13px; }
th, td { padding: .2em .6em; border-bottom: 1px solid #e4e4e4; text-align: right;
         vertical-align: top; }
th { background: #f5f5f5; font-weight: 600; }
th:first-child, td:first-child { text-align: left; min-width: 9rem; max-width: 24rem;
                                 position: sticky; left: 0; background: #fff; }
th:first-child { background: #f5f5f5; }
.left td, .left th { text-align: left; }
.chip { display: inline-block; padding: 0 .5em; margin: 1px 2px; border-radius: .7em; color: #fff;
        font-size: 12px; white-space: nowrap; }
.met { background: var(--met); } .missed { background: var(--missed); }
.unseen { background: var(--unseen); } .stale { background: var(--stale); }
.missing { background: #bbb; } .current { background: var(--met); }
.small { font-size: 12px; color: #555; overflow-wrap: anywhere; }
.goals { padding-left: 1.2em; } svg { max-width: 100%; height: auto; }
details > summary { cursor: pointer; }
@media (max-width: 40rem) { body { padding: .6rem; font-size: 14px; } table { font-size: 11px; }
  th, td { padding: .2em .3em; }
  th:first-child, td:first-child { position: static; max-width: 12rem; } }
"""
CLASSES = {ledger.MET: "met", ledger.MISSED: "missed", ledger.UNSEEN: "unseen"}
CORRECTNESS = ("soak", "models", "refault-broken")


def _rows(rows: Sequence[Sequence[str]], kind: str = "") -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows[1:]
    )
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _chip(text: str, kind: str, title: str = "") -> str:
    return f'<span class="chip {kind}" title="{escape(title, quote=True)}">{escape(text)}</span>'


def _state(state: State) -> str:
    return _chip(state.word, state.word, state.text)


def _matrix(
    studies: Sequence[Study],
    by_study: Mapping[str, list[ledger.Line]],
    states: Mapping[str, State],
) -> str:
    """A row for each study: a chip for each goal, grey where the study is stale."""
    rows = []
    for one in studies:
        lines = by_study.get(one.name, [])
        chips = []
        for goal in page.goals_of(lines):
            kind = CLASSES[goal.verdict]
            chips.append(_chip(goal.verdict, kind, goal_text(goal)))
        chips += [_chip("check failed", "missed", text) for line in lines for text in line.checks]
        if len(chips) > 24:
            counts = collections.Counter(goal.verdict for goal in page.goals_of(lines))
            chips = [_chip(f"{n} {word}", CLASSES[word]) for word, n in counts.items()]
        link = f'<a href="#{one.name}">{escape(one.name)}</a>' if lines else escape(one.name)
        rows.append(
            f"<tr><td>{link}</td><td>{_state(states[one.name])}</td>"
            f"<td>{''.join(chips) or 'no goal'}</td></tr>"
        )
    head = "<tr><th>study</th><th>state</th><th>goals</th></tr>"
    return (
        f'<div class="scroll"><table class="left"><thead>{head}</thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _curve(study: Study, lines: Iterable[ledger.Line]) -> str:
    series = [(line.cell, line.curve) for line in lines if len(line.curve) > 1]
    if not series:
        return ""
    last = max(points[-1][0] for _, points in series)
    top = max(1.0, *(y for _, points in series for _, y in points))
    x_step, y_step = report.round_step(last), report.round_step(top)
    x_ticks = [(n * x_step, f"{n * x_step:g}") for n in range(int(last / x_step) + 1)]
    y_ticks = [(n * y_step, f"{n * y_step:g}") for n in range(round(top / y_step) + 1)]
    title = f"{study.curve[1]}, by {study.curve[0]}"
    plot = report.chart(title, series, x_ticks, y_ticks, last=last, top_y=top)
    return plot.partition("\n")[2]


def _section(study: Study, lines: Sequence[ledger.Line], state: State) -> str:
    out = [
        f'<h2 id="{study.name}">{escape(study.title)} {_state(state)}</h2>',
        f"<p>{escape(study.what)}</p>",
    ]
    goals = page.goals_of(lines)
    if goals:
        items = "".join(
            f"<li>{_chip(goal.verdict, CLASSES[goal.verdict])} {escape(goal_text(goal))}</li>"
            for goal in goals
        )
        out.append(f'<ul class="goals">{items}</ul>')
    out += [
        f"<p>{_chip('check failed', 'missed')} {escape(text)}</p>"
        for line in lines
        for text in line.checks
    ]
    shown_tables = tables(study, lines)
    if study.beside:
        shown_tables.append((study.beside[0], study.beside[1](lines)))
    for title, rows in shown_tables:
        shown = f"<h3>{escape(title)}</h3>" if title else ""
        text = _rows(rows)
        if len(rows) > 24:
            text = f"<details><summary>{len(rows) - 1} rows</summary>{text}</details>"
        out.append(shown + text)
    out.append(_curve(study, lines))
    if study.notes:
        out.append("<ul>" + "".join(f"<li>{escape(note)}</li>" for note in study.notes) + "</ul>")
    kernels = sorted({f"{line.kernel} from {line.base}" for line in lines if line.kernel})
    hosts = sorted({line.host for line in lines})
    commits = sorted({line.commit for line in lines})
    raw = sorted({line.raw for line in lines})
    here = "here" if all(ledger.raw(name) for name in raw) else "not on this machine"
    out.append(
        f'<p class="small">{escape(state.text)}.  <code>{escape(study.command)}</code>, about '
        f"{study.minutes:.0f} minutes.  Measured {min(line.date for line in lines)} to "
        f"{max(line.date for line in lines)}.  Kernels: {escape('; '.join(kernels) or 'none')}.  "
        f"Project: {escape(', '.join(commits))}.  Host: {escape('; '.join(hosts))}.  Raw data "
        f"{escape(', '.join(raw))}: {here}.</p>"
    )
    return "\n".join(out)


def document(
    studies: Sequence[Study], lines: Sequence[ledger.Line], states: Mapping[str, State]
) -> str:
    """The whole file."""
    by_study: dict[str, list[ledger.Line]] = collections.defaultdict(list)
    for line in lines:
        by_study[line.study].append(line)
    there = [one for one in studies if by_study[one.name]]
    measured = [one for one in there if one.name not in CORRECTNESS]
    checked = [one for one in there if one.name in CORRECTNESS]

    def sections(some: Iterable[Study]) -> str:
        return "\n".join(_section(one, by_study[one.name], states[one.name]) for one in some)

    marks = {name: state.word for name, state in states.items()}
    words = collections.Counter(state.word for state in states.values())
    summary = ", ".join(f"{count} {word}" for word, count in sorted(words.items()))
    return "\n".join(
        [
            "<!-- SPDX-License-Identifier: GPL-2.0 -->",
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>tiershift: results</title><style>{STYLE}</style></head><body>",
            "<h1>tiershift: results</h1>",
            "<p>Guests are emulated (QEMU TCG).  Counts are exact.  Seconds are no speed of "
            "hardware: use them as ratios within one table.  Caches, memory latency, bandwidth and "
            "the cost of an interrupt are not modelled.  A single run has no verdict.</p>",
            *(_rows(headline.pairs(part, lines, marks)) for part in headline.PARTS),
            _rows(headline.table(lines, marks)),
            f"<h2>Studies and goals</h2><p>{summary}.  A chip says more when the pointer rests on "
            "it; so does each study's section.  Stale: today's kernel has other code where it "
            "counts.</p>",
            _matrix(studies, by_study, states),
            sections(measured),
            "<h2>Correctness</h2><p>What is checked rather than measured.</p>",
            sections(checked),
            "<h2>Provenance</h2>",
            _rows(page.matrix(studies, lines, marks), "left"),
            "</body></html>",
            "",
        ]
    )
