# SPDX-License-Identifier: GPL-2.0
"""The lab's command line; every command is a thin call into one module."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from lab import (
    build,
    cache,
    curves,
    guest,
    kconfig,
    manifest,
    migrc,
    migrc_curve,
    migrcfaults,
    models,
    policycost,
    readcost,
    refault,
    repeats,
    report,
    scenario,
    shares,
    soak,
    source,
    summary,
    thp,
    topology,
    tree,
    zap,
)
from lab.errors import LabError

RESULTS = cache.PROJECT / "docs" / "results"
README = cache.PROJECT / "README.md"


def _external(pairs: Sequence[str]) -> dict[str, Path]:
    programs: dict[str, Path] = {}
    for pair in pairs:
        name, separator, path = pair.partition("=")
        if not separator or not name:
            raise LabError(f"--external {pair!r} is not NAME=PATH")
        if not os.access(path, os.X_OK):
            raise LabError(f"--external {name}: {path} is not an executable file")
        programs[name] = Path(path).resolve()
    return programs


def _scenario(
    scenarios: Sequence[scenario.Scenario],
    args: argparse.Namespace,
    save: Path | None,
    bench: bool = True,
    again: Sequence[str] = (),
) -> int:
    started = time.monotonic()
    failed: list[str] = []
    for item in scenarios:
        out_dir = cache.sub("runs") / item.name
        earlier = None
        if again:
            earlier = report.read(RESULTS, item.name)
        result = scenario.run_scenario(
            item,
            kernels=build.kernel,
            out_dir=out_dir,
            cache=cache.root(),
            external=_external(args.external),
            contenders=[*again] or args.contender or None,
            bench=bench,
            earlier=earlier,
            progress=sys.stderr,
        )
        report.print_table(result)
        report.write(result, out_dir)
        print(f"JSON, Markdown and plot: {out_dir}")
        if save:
            report.write(result, save)
        if result["failures"]:
            failed.append(item.name)
    print(f"total time: {(time.monotonic() - started) / 60:.1f} minutes")
    if failed:
        raise LabError(
            "checks failed in these comparisons: " + ", ".join(failed),
            "the FAILED CHECK lines above say why",
        )
    return 0


def run(args: argparse.Namespace) -> int:
    """make run: the main job."""
    chosen = [scenario.load(args.scenario)]
    return _scenario(chosen, args, RESULTS if args.save else None, bench=False)


def bench(args: argparse.Namespace) -> int:
    """make bench: every scenario, results kept in docs/results."""
    names = args.scenarios or scenario.list_scenarios()
    return _scenario([scenario.load(name) for name in names], args, RESULTS, again=args.again)


def sweep(args: argparse.Namespace) -> int:
    """make sweep: rivals with other tunables, results kept in docs/results."""
    if args.contender:
        print("some contenders only: docs/results is left as it is")
    save = None if args.contender else RESULTS
    return _scenario([scenario.load_sweep(name) for name in args.scenarios], args, save)


def run_repeats(args: argparse.Namespace) -> int:
    """make repeats: how far do equal runs differ, and which goals are met in spite of it?"""
    if args.times < repeats.TIMES:
        print("fewer turns than usual: docs/results is left as it is")
    save = RESULTS if args.times >= repeats.TIMES else None
    for name in args.scenarios:
        repeats.repeats(name, args.times, save, resume=args.resume)
    return 0


def kernels(args: argparse.Namespace) -> int:
    """make kernels: build, then one NAME=PATH line each."""
    images = build.kernels(args.flavour or list(kconfig.FLAVOURS))
    for image in images:
        print(f"{image.flavour}={image.image}")
    return 0


def run_soak(args: argparse.Namespace) -> int:
    """make soak: long torture on the debug kernel."""
    return (
        0 if soak.soak(args.seconds, RESULTS, args.torture, args.machine, resume=args.resume) else 1
    )


def run_curves(args: argparse.Namespace) -> int:
    """make curves: the cost of kmmscand's scanner."""
    every = curves.make_cases()
    cases = curves.make_cases(args.sizes, args.idle_mb, args.shared_mb, args.processes, args.cpu_mb)
    known = [case.name for case in cases]
    for name in args.cases:
        if name not in known:
            raise LabError(f"curves has no case {name!r}", "there are: " + ", ".join(known))
    chosen = [case for case in cases if not args.cases or case.name in args.cases]
    out_dir = cache.sub("runs") / "curves"
    result = curves.measure(chosen, out_dir)
    curves.show(result)
    curves.write(result, out_dir)
    print(f"JSON, Markdown and plot: {out_dir}")
    print(f"total time: {result['seconds'] / 60:.1f} minutes")
    if chosen == every:
        curves.write(result, RESULTS)
    else:
        print("some of the cases, or other sizes: docs/results is left as it is")
    if result["failures"]:
        raise LabError("these figures do not count", "the FAILED CHECK lines above say why")
    return 0


def run_refault(args: argparse.Namespace) -> int:
    """make refault: does kmmscand take Accessed bits away from reclaim?"""
    return 0 if refault.refault(args.seeds, args.lru, args.broken, RESULTS) else 1


def _add_resume(command: argparse.ArgumentParser) -> None:
    text = "go on with one that was broken off: what is done on the same kernel is not done again"
    command.add_argument("--resume", action="store_true", help=text)


def run_migrc_faults(args: argparse.Namespace) -> int:
    """make soak: does each test of MIGRC find what it is for?"""
    whole = args.seeds >= migrcfaults.SEEDS and not args.switch
    if not whole:
        print("fewer seeds or switches: docs/results is left as it is")
    save = RESULTS if whole else None
    return 0 if migrcfaults.run(args.seeds, save, args.switch, resume=args.resume) else 1


def run_readcost(_args: argparse.Namespace) -> int:
    """make readcost: what looking at page cache costs those who read it."""
    return 0 if readcost.readcost(RESULTS) else 1


def run_thp(_args: argparse.Namespace) -> int:
    """make thp: large folios before and after promotion."""
    return 0 if thp.thp(RESULTS) else 1


def run_policycost(_args: argparse.Namespace) -> int:
    """make policycost: what it costs to ask memory policies at each promotion."""
    return 0 if policycost.policycost(RESULTS) else 1


def run_zap(_args: argparse.Namespace) -> int:
    """make zap: what unmapping costs, batched and not."""
    return 0 if zap.zap(RESULTS) else 1


def run_summary(_args: argparse.Namespace) -> int:
    """make summary: one page about what all the others say."""
    print(f"written: {summary.write(RESULTS).relative_to(cache.PROJECT)}")
    return 0


def run_shares(args: argparse.Namespace) -> int:
    """make shares: how much of memory control groups is promoted under a limit."""
    whole = args.runs >= shares.RUNS
    if not whole:
        print("fewer runs: docs/results is left as it is")
    return 0 if shares.measure(args.runs, RESULTS if whole else None) else 1


def run_migrc(args: argparse.Namespace) -> int:
    """make migrc: flushes with MIGRC and without, how that grows, and what it costs."""
    good = migrc.migrc(args.parts, args.group, args.contender, RESULTS, resume=args.resume)
    return 0 if good else 1


def run_migrc_curve(args: argparse.Namespace) -> int:
    """make migrc-curve: flushes saved against memory held and age."""
    limits = args.sizes, args.max_pages, args.max_age_ms
    migrc_curve.curve(*limits, RESULTS, resume=args.resume)
    return 0


def run_models(args: argparse.Namespace) -> int:
    """make models: verify the Promela models and see their mutations fail."""
    if args.trail:
        name, _, switch = args.trail.partition(":")
        for model in models.load_all():
            if model.name == name:
                print(models.trail(model, switch))
                return 0
        raise LabError(f"there is no model {name!r}")
    return 0 if models.verify_all(args.models, RESULTS) else 1


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


def series(args: argparse.Namespace) -> int:
    """make series: export mails."""
    version = args.base or source.newest()
    out = Path(args.out).resolve() if args.out else cache.sub("series")
    written = tree.export_series(version, out)
    print(f"{len(written)} mails on {version}; apply with:")
    print(f"  git am --empty=drop {out}/*/*.patch")
    return 0


def _numbers(text: str) -> list[int]:
    numbers = [int(word) for word in text.split(",")]
    if min(numbers) < 1:
        raise ValueError
    return numbers


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lab", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, function: object, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(function=function)
        return command

    def measuring(command: argparse.ArgumentParser) -> None:
        command.add_argument("--external", action="append", default=[], metavar="NAME=PATH")
        command.add_argument("--contender", action="append", default=[], metavar="NAME")

    command = add("run", run, "run one scenario (redis) and print its table")
    command.add_argument("scenario", nargs="?", default="redis")
    command.add_argument("--save", action="store_true", help="also write docs/results")
    measuring(command)
    command = add("bench", bench, "run scenarios and write docs/results")
    command.add_argument("scenarios", nargs="*", metavar="SCENARIO")
    command.add_argument(
        "--again",
        action="append",
        default=[],
        metavar="NAME",
        help="run only this contender, and keep the others as docs/results has them",
    )
    measuring(command)
    command = add("sweep", sweep, "run rivals with other tunables and write docs/results")
    command.add_argument("scenarios", nargs="+", metavar="SCENARIO")
    measuring(command)
    command = add("repeats", run_repeats, "the same comparison some times, into docs/results")
    command.add_argument("scenarios", nargs="+", metavar="SCENARIO")
    command.add_argument("--times", type=int, default=repeats.TIMES)
    _add_resume(command)
    command = add("kernels", kernels, "build kernels and print their paths")
    command.add_argument("flavour", nargs="*")
    command = add("soak", run_soak, "long torture on the debug kernel, into docs/results")
    command.add_argument("--seconds", type=int, default=120, help="of each torture (120)")
    command.add_argument(
        "--machine", action="append", default=[], choices=[*soak.MACHINES], help="default: all"
    )
    command.add_argument("torture", nargs="*")
    _add_resume(command)
    command = add("curves", run_curves, "what kmmscand's scanner costs, into docs/results")
    command.add_argument("cases", nargs="*", metavar="CASE", help="default: all")
    for option, default, text in (
        ("--sizes", curves.SIZES, "memory of the cases size-N, in MiB"),
        ("--processes", curves.PROCESSES, "of the cases processes-N"),
    ):
        command.add_argument(option, type=_numbers, default=default, metavar="N,N", help=text)
    for option, mb, text in (
        ("--shared-mb", curves.SHARED_MB, "memory of all these processes"),
        ("--idle-mb", curves.IDLE_MB, "memory of the case idle"),
        ("--cpu-mb", curves.CPU_MB, "memory of the case cpu"),
    ):
        command.add_argument(option, type=int, default=mb, metavar="MIB", help=text)
    command = add("refault", run_refault, "refaults and swap-ins with kmmscand on and off")
    command.add_argument("--seeds", type=int, help="fewer than usual: docs/results stays")
    command.add_argument("--lru", choices=sorted(refault.LRUS), default="mglru")
    command.add_argument(
        "--broken", action="store_true", help="debug kernel: kmmscand steals, and must be caught"
    )
    command = add("migrc-faults", run_migrc_faults, "MIGRC with each safety step left out")
    command.add_argument("--seeds", type=int, default=migrcfaults.SEEDS)
    command.add_argument("switch", nargs="*", help="default: all")
    _add_resume(command)
    add("readcost", run_readcost, "what read(2) costs with kmmscand on and off, into docs/results")
    add("thp", run_thp, "large folios before and after promotion, by size, into docs/results")
    add("policycost", run_policycost, "what asking memory policies costs, into docs/results")
    add("zap", run_zap, "what unmapping costs, batched and not, into docs/results")
    add("summary", run_summary, "one page about all results, into docs/results; measures nothing")
    command = add("shares", run_shares, "what is promoted under memory.tier.max, into docs/results")
    command.add_argument("--runs", type=int, default=shares.RUNS)
    command = add("migrc", run_migrc, "MIGRC on and off, growth and cost, into docs/results")
    command.add_argument("parts", nargs="*", metavar="PART", help=", ".join(migrc.PARTS))
    for option, text in (("--group", "of runs"), ("--contender", "in each group")):
        command.add_argument(
            option,
            action="append",
            default=[],
            metavar="NAME",
            help=f"only this one {text}: docs/results stays",
        )
    _add_resume(command)
    command = add("migrc-curve", run_migrc_curve, "flushes saved against memory held and age")
    for option, numbers, text in (
        ("--sizes", migrc_curve.SIZES, "of the fast node, in MiB"),
        ("--max-pages", migrc_curve.MAX_PAGES, "pages held"),
        ("--max-age-ms", migrc_curve.MAX_AGES_MS, "age of what is held"),
    ):
        command.add_argument(option, type=_numbers, default=numbers, metavar="N,N", help=text)
    _add_resume(command)
    command = add("models", run_models, "verify the Promela models, into docs/results")
    command.add_argument("models", nargs="*", metavar="MODEL", help="default: all")
    command.add_argument(
        "--trail", metavar="MODEL:SWITCH", help="print the counterexample of a mutation"
    )
    command = add("shell", shell, "an interactive guest")
    command.add_argument("--kernel", default="tiershift")
    command.add_argument("--topology", default="two-tier")
    command = add("rooms", list_rooms, "the rooms of linux/series, what they are, their state")
    command.add_argument("--write", action="store_true", help="into README.md, instead")
    for name, function, text in (
        ("tree", make_tree, "check out the kernel tree for editing"),
        ("refresh", refresh, "write the edited kernel tree back into linux/"),
        ("series", series, "export the patch series"),
    ):
        command = add(name, function, text)
        command.add_argument("--base", metavar="VERSION", help="default: the newest offered")
        if name == "series":
            command.add_argument("--out", metavar="DIRECTORY")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, run, and print an error a person can act on."""
    args = _parser().parse_args(argv)
    try:
        return int(args.function(args))
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was finished is kept and the next run goes on", file=sys.stderr)
        return 130
