# SPDX-License-Identifier: GPL-2.0
"""The lab's command line; every command is a thin call into one module."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from lab import (
    build,
    cache,
    compare,
    deb,
    declared,
    firstrun,
    guest,
    kconfig,
    manifest,
    report,
    scenario,
    source,
    studies,
    topology,
    tree,
)
from lab.errors import LabError
from lab.results import headline, html, ledger, page, status

README = cache.PROJECT / "README.md"
VERDICT_ROWS = 8
NO_KERNEL = "none"  # FLAVOUR=


def run(args: argparse.Namespace) -> int:
    """make run: the main job; or a scenario, and what it says in a few rows."""
    if not args.scenario:
        if args.external or args.full:
            raise LabError("--full and --external are for a scenario", "name it: lab run redis")
        return firstrun.run(args.contender)
    item = scenario.load(args.scenario)
    external = compare.external(args.external)
    began = time.monotonic()
    chosen = [c for c in item.contender if not c.bench_only]
    builds = build.missing(c.kernel for c in chosen)
    needs = [
        scenario.expected_seconds(cache.root(), f"{item.name}/{c.name}", item.measure.expected_s)
        for c in chosen
        if not args.contender or c.name in args.contender
    ]
    print(
        f"{len(builds)} kernels to build and {len(needs)} runs: at most "
        f"{(sum(builds.values()) + sum(needs)) / 60:.0f} minutes in all",
        file=sys.stderr,
    )
    for flavour in builds:
        build.kernel(flavour)
    result = scenario.run_scenario(
        item,
        kernels=build.kernel,
        out_dir=cache.sub("runs") / item.name,
        cache=cache.root(),
        external=external,
        contenders=args.contender or None,
        bench=False,
        progress=sys.stderr,
    )
    if args.full:
        report.print_table(result)
    else:
        report.print_verdict(result, VERDICT_ROWS)
    print(f"total time: {(time.monotonic() - began) / 60:.1f} minutes")
    if result["failures"]:
        raise LabError("checks failed", "; ".join(result["failures"]))
    return 0


def run_study(args: argparse.Namespace) -> int:
    """One study."""
    return 0 if args.study.run(args) else 1


def bench(args: argparse.Namespace) -> int:
    """lab bench: every scenario that is compared; results go to the ledger."""
    names = args.scenarios or scenario.list_scenarios()
    args.again, args.contender, args.external = [], [], []
    good = [compare.compare(scenario.load(name), args) for name in names]
    return 0 if all(good) else 1


def run_report(args: argparse.Namespace) -> int:
    """make report: an HTML file about everything in the ledger, and docs/results.md."""
    known, lines = [*studies.every()], ledger.read()
    kernels = status.record(status.kernels_of_today(known), known, lines)
    marks = status.marks(known, lines, kernels)
    page.write(known, lines, marks)
    text = headline.in_readme(README.read_text("utf-8"), lines, marks)
    README.write_text(text, encoding="utf-8")
    out = Path(args.out).resolve() if args.out else cache.root() / "report.html"
    out.write_text(
        html.document(known, lines, status.states(known, lines, kernels)), encoding="utf-8"
    )
    print(f"{page.PAGE.relative_to(cache.PROJECT)} is written")
    print(f"open {out} in a browser")
    return 0


def run_status(_args: argparse.Namespace) -> int:
    """Which results are of the code as it is, and what measures the others again."""
    report.print_rows(status.table([*studies.every()], ledger.read()), sys.stdout)
    return 0


def kernels(args: argparse.Namespace) -> int:
    """lab kernels: build, then one NAME=PATH line each."""
    images = build.kernels(args.flavour or list(kconfig.FLAVOURS))
    for image in images:
        print(f"{image.flavour}={image.image}")
    return 0


def shell(args: argparse.Namespace) -> int:
    """make shell: an interactive guest."""
    image = build.kernel(args.kernel)
    out_dir = cache.sub("runs") / "shell"
    out_dir.mkdir(exist_ok=True)
    argv = guest.command_line(
        image.image, topology.load(args.topology), "", out_dir=out_dir, append="loglevel=4"
    )
    cut = argv.index("--exec")
    print(f"files written to {out_dir} stay; leave with exit or ctrl-d")
    env = dict(os.environ, PATH=f"{Path(argv[0]).parent}:{os.environ['PATH']}")
    return subprocess.call([a for a in argv[:cut] if a != "--verbose"], env=env)


def list_rooms(args: argparse.Namespace) -> int:
    """The rooms, what each is about and its state; with --write into README.md."""
    if args.write:
        manifest.write_table(README)
    else:
        for room, state, what in manifest.table():
            print(f"{room:20} {state:6} {what}")
    return 0


def list_declared(args: argparse.Namespace) -> int:
    """Documents that are made of the rooms' declarations; with --write brought up to date."""
    for path in declared.write() if args.write else declared.stale():
        print(f"{path.relative_to(cache.PROJECT)} {'is written' if args.write else 'is stale'}")
    return 0


def make_tree(args: argparse.Namespace) -> int:
    """make tree: check out the composed commits."""
    version = args.base or source.newest()
    path, head = tree.checkout_tree(version)
    print(f"{path}: branch {tree.BRANCH} at {head[:12]} on {version}")
    print("edit there; commit as a fixup of the commit a change belongs to")
    print(f"(or as a new commit ending in `{tree.TRAILER}: NAME`); then make refresh")
    print("Debian's .gitignore hides new files there: use git add -f")
    return 0


def refresh(args: argparse.Namespace) -> int:
    """make refresh: write the edited tree back."""
    changed = tree.refresh(args.base or source.newest())
    print("changed rooms: " + (", ".join(changed) if changed else "none"))
    return 0


def make_deb(args: argparse.Namespace) -> int:
    """make deb: the packages of a kernel and of tierctl, and how they are installed."""
    made, image, keys = [], None, deb.sign.keys(args.key, args.cert)
    if keys and args.flavour in (NO_KERNEL, deb.make.LAB):
        raise deb.sign.BadKeys(f"FLAVOUR={args.flavour} is never signed", "leave KEY and CERT out")
    if args.flavour != NO_KERNEL:
        built = deb.make.deb(deb.make.plan(args.flavour, args.base, args.modules, keys))
        made += [built, *sorted({*built.parent.glob("*.deb")} - {built})]
        image = deb.tools.Image.of(built)
    made += deb.tools.make(image)
    for path in made:
        print(path)
    print("install one or all of them with: apt install FILE...")
    return 0


def make_repo(args: argparse.Namespace) -> int:
    """make repo: kernels of the tree's number, and the others, as a directory for apt."""
    out = Path(args.out).resolve() if args.out else cache.root() / "repo"
    images = deb.make.every()
    if args.key:
        deb.repo.check_key(args.key)
    more = deb.tools.make(deb.tools.newest(images), args.key)
    deb.repo.write(out, [*images, *more], args.key)
    print(deb.repo.advice(out, args.key))
    return 0


def series(args: argparse.Namespace) -> int:
    """make series: export mails."""
    version = args.base or source.newest()
    out = Path(args.out).resolve() if args.out else cache.sub("series")
    written = tree.export_series(version, out)
    print(f"{len(written)} mails on {version}; apply with:")
    print(f"  git am --empty=drop {out}/*/*.patch")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lab", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, function: object, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(function=function)
        return command

    command = add("run", run, "the main job, or a scenario and its verdict")
    command.add_argument("scenario", nargs="?")
    command.add_argument("--full", action="store_true", help="every figure, and how to read them")
    command.add_argument("--external", action="append", default=[], metavar="NAME=PATH")
    command.add_argument("--contender", action="append", default=[], metavar="NAME")
    command = add("study", run_study, "measure one study; results go to results/ledger.ndjson")
    names = command.add_subparsers(required=True, metavar="NAME")
    for one in studies.every():
        text = f"{one.title} (about {one.minutes:.0f} minutes)"
        study = names.add_parser(one.name, help=text, description=one.what)
        study.set_defaults(study=one)
        if one.arguments:
            one.arguments(study)
    command = add("bench", bench, "all scenarios; results go to results/ledger.ndjson")
    command.add_argument("scenarios", nargs="*", metavar="SCENARIO")
    command = add("report", run_report, "report.html and docs/results.md, from the ledger")
    command.add_argument("--out", help="the HTML file (default: report.html in the cache)")
    add("status", run_status, "which results are of the code as it is")
    command = add("kernels", kernels, "build kernels and print their paths")
    command.add_argument("flavour", nargs="*")
    command = add("shell", shell, "an interactive guest")
    command.add_argument("--kernel", default="tiershift")
    command.add_argument("--topology", default="two-tier")
    command = add("rooms", list_rooms, "the rooms of linux/series, what they are, their state")
    command.add_argument("--write", action="store_true", help="into README.md, instead")
    command = add(
        "declared", list_declared, "documents made of what rooms declare: those that are stale"
    )
    command.add_argument("--write", action="store_true", help="bring them up to date, instead")
    command = add("repo", make_repo, "a directory for apt with the packages of the tree's number")
    command.add_argument("--out", metavar="DIRECTORY", help="default: repo in the cache")
    command.add_argument("--key", help="sign with this secret key of gpg")
    for name, function, text in (
        ("deb", make_deb, "packages: a kernel, tierctl, tiershift-doc"),
        ("tree", make_tree, "check out the kernel tree for editing"),
        ("refresh", refresh, "write the edited kernel tree back into linux/"),
        ("series", series, "export the patch series"),
    ):
        command = add(name, function, text)
        command.add_argument("--base", metavar="VERSION", help="default: the newest offered")
        if name == "series":
            command.add_argument("--out", metavar="DIRECTORY")
        if name == "deb":
            command.add_argument("--flavour", default="amd64", help="amd64, cloud, none")
            command.add_argument("--modules", default=deb.make.FROM_DEBIAN)
            command.add_argument("--key", help="sign for Secure Boot with this private key (PEM)")
            command.add_argument("--cert", help="the certificate of --key (PEM)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, run, and print an error a person can act on."""
    # Guests end with the lab, whatever ends it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        args = _parser().parse_args(argv)
        return int(args.function(args))
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.code
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        place = f" at {error.filename}" if error.filename else ""
        print(f"error: the disk is full{place}\n  what to do: free some space", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was finished is kept and the next run goes on", file=sys.stderr)
        return 130
