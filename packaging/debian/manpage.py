# SPDX-License-Identifier: GPL-2.0
"""tierctl(8) of what argparse-manpage has made of the parser.

It writes a page of section 1, and leaves out exit codes and files.  Version 1.2 of Debian 12 and
version 4.5 of Debian 13 have other headings.
"""

import re
import sys
from pathlib import Path

NAME = "show and control tiered memory"
SECTIONS = r"""
.SH EXIT STATUS
.TP
0
All is well.
.TP
1
A command has found something to do, or a difference.
.TP
2
The command line or a file is wrong.
.TP
3
The command needs more rights: run it as root.
.TP
4
This kernel lacks what the command needs.
.SH FILES
.TP
.I /etc/tierctl/tierctl.toml
Profile, settings, limits of groups; see
.BR tierctl.toml (5).
.TP
.I /etc/tierctl/conf.d/*.toml
The same in pieces, read after it.
.TP
.I /etc/tierctl/kept.toml
What commands keep for the next boot, read last.
.TP
.I /etc/tierctl/profiles/*.toml
Profiles of your own.
.TP
.I /usr/share/tierctl/profiles/*.toml
Profiles that tierctl brings.
.TP
.I /usr/share/tierctl/schemas/*.json
JSON Schema of what
.B \-\-json
prints.
.TP
.I /usr/share/tierctl/alerts.yml
Alerts for Prometheus.
.TP
.I /usr/share/tierctl/grafana\-dashboard.json
A dashboard for Grafana.
.TP
.I /var/lib/tierctl
Values from before a profile was applied, and records.
.TP
.I /run/tierctl/looked
When
.B tierctl heat \-\-look
let MGLRU look: the ages are then known.
.SH UNITS
.TP
.B tierctl.service
applies the profile at boot, if one is chosen.  Stopping it changes nothing.
.TP
.B tierctl\-export.timer
writes metrics for the textfile collector of Prometheus's node exporter.  It is off.
.TP
.B tierctl\-record.service
records samples of the machine.  It is off.
.SH ENVIRONMENT
.TP
.B NO_COLOR
If it is set, no colour is used.
.TP
.B TIERCTL_DEBUG
If it is set, an internal error prints where it came from.
.SH SEE ALSO
.BR tierctl.toml (5),
.BR numastat (8),
.BR systemd.unit (5)
"""


def page(made: str) -> str:
    """The page of section 8."""
    body = re.split(r"\n\.SH (?:AUTHORS|COMMENTS)\n", made)[0]
    body = body[body.index(".SH SYNOPSIS") :]
    lists = r"(?:\.SH OPTIONS\n)?\.SS\n\\fBSub-commands\\fR\n|\.SH\nPOSITIONAL ARGUMENTS\n"
    body = re.sub(lists, ".SH COMMANDS\n", body, count=1)
    body = re.sub(lists, "", body)
    body = _headings(body)
    body = re.sub(r"(?m)^usage: (.*(?:\n +.*)*)", _usage, body)
    # They come last, and seem to belong to the last command.
    first = r"(?:\.SH OPTIONS\n)?(?=\.TP\n\\fB\\-\\-version)"
    head = ".SH COMMON OPTIONS\nAll but \\-\\-version may come after the command, too.\n"
    body = re.sub(first, lambda _: head, body, count=1)
    # man shows an empty line as one more than wanted.
    body = re.sub(r"\n{2,}", "\n", body)
    head = f'.TH TIERCTL 8 "" tierctl "System Administration"\n.SH NAME\ntierctl \\- {NAME}\n'
    return f'.\\" SPDX-License-Identifier: GPL-2.0\n{head}{body.rstrip()}{SECTIONS}'


def _headings(body: str) -> str:
    """One for each command: 4.5 has two, COMMAND and OPTIONS."""
    known: set[str] = set()

    def heading(found: re.Match[str]) -> str:
        name = found[1]
        again = name in known
        known.add(name)
        return "" if again else f'.SS "{name}"\n'

    pattern = (
        r"(?m)^\.SH\s(?:COMMAND|OPTIONS|POSITIONAL ARGUMENTS) (?:\\fI\\,)?'(.*?)'(?:\\/\\fR)?\n"
    )
    return re.sub(pattern, heading, body)


def _usage(found: re.Match[str]) -> str:
    lines = found[1].replace("\\-", "-").replace("-", "\\-").splitlines()
    return "\n".join([".nf", *(line.rstrip() for line in lines), ".fi"])


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.write_text(page(source.read_text("utf-8")), encoding="utf-8")
