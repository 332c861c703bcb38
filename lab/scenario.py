# SPDX-License-Identifier: GPL-2.0
"""A scenario: topology + workload + what is measured + what is compared.

lab/scenarios/NAME.toml describes one; zipf-4k.toml explains every key.  Each
contender (a tiering mode on a kernel) gets its own boot and exactly the same
job, one after the other.  The figures that compare them are derived in
lab/metrics.py, shown by lab/report.py.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import shutil
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TextIO, get_args, get_origin, get_type_hints

from lab import damon, guest, instruments, manifest, metrics, programs, tier, topology
from lab.damon import Tunables
from lab.errors import LabError
from lab.results import ledger

SCHEMA = 1
DIRECTORY = Path(__file__).parent / "scenarios"
SWEEP = Path(__file__).parent / "sweep.toml"
# What runs in the guest: the agent, and the parts of this package that it imports.
AGENT = ("__init__.py", "agent.py", "damon.py", "looks.py")
INSTRUMENTS = ("access", "insn", "tlb")


class Kernel(Protocol):
    """What a scenario needs to know of a kernel (lab.build.KernelImage)."""

    @property
    def image(self) -> Path: ...
    @property
    def system_map(self) -> Path: ...
    @property
    def release(self) -> str: ...
    @property
    def flavour(self) -> str: ...
    @property
    def key(self) -> str: ...
    def describe(self) -> dict[str, str]: ...


@dataclass(frozen=True)
class Mode:
    """A tiering mode: files to write when it starts and when it ends."""

    enter: tuple[tuple[str, str], ...]
    leave: tuple[tuple[str, str], ...]
    needs: tuple[str, ...] = ()


NUMA_BALANCING = "/proc/sys/kernel/numa_balancing"
DEMOTION = "/sys/kernel/mm/numa/demotion_enabled"
PROMOTER = "kmmscand"  # mode tiershift switches this room on, ...
BESIDE = ("migrate-batch",)  # ... and these, but for files that a contender's settings name
MODES = {
    "none": Mode((), ()),
    "numab2": Mode(((NUMA_BALANCING, "2"),), ((NUMA_BALANCING, "0"),), (NUMA_BALANCING,)),
    # No scheme: the workload itself puts its hottest pages on the fast node.
    "oracle": Mode((), ()),
    "damon": Mode((), (), (str(damon.ADMIN / "nr_kdamonds"),)),  # see lab/damon.py
}


def modes() -> dict[str, Mode]:
    """The tiering modes by name."""
    switches = manifest.switches(PROMOTER)
    if not switches:  # without that room there is nothing to compare
        return MODES
    switches = [switch for room in BESIDE for switch in manifest.switches(room)] + switches
    ours = Mode(
        enter=tuple((switch.file, switch.on) for switch in switches),
        leave=tuple((switch.file, switch.off) for switch in reversed(switches)),
        needs=tuple(switch.file for switch in switches),
    )
    return {**MODES, "tiershift": ours}


def demotion_switch(mode: str) -> str:
    """What switches demotion on: mode tiershift has a part, others the base kernel's file."""
    return tier.enabled("demote") if mode == "tiershift" else DEMOTION


@dataclass(frozen=True)
class Machine:
    """[topology]: a machine of lab/topologies, with other sizes."""

    name: str
    sizes: dict[str, int] = field(default_factory=dict)
    system_cpus: list[int] = field(default_factory=list)
    append: str = ""

    def load(self) -> topology.Topology:
        return topology.load(self.name, **self.sizes)


@dataclass(frozen=True)
class Process:
    """[service], [load] or [workload]: a program, its arguments, its CPUs."""

    program: str
    args: list[str] = field(default_factory=list)
    cpus: list[int] = field(default_factory=list)
    ready: str = ""
    handshake: bool = True
    settle_s: float = 5.0
    duration_s: float = 0.0


@dataclass(frozen=True)
class Placement:
    """[placement]: which process starts on which node, and how surely."""

    process: str = "workload"
    source: str = "fast"
    target: str = "slow"
    min_share: float = 0.95


@dataclass(frozen=True)
class Measure:
    """[measure]: instruments, and what the figures refer to."""

    instruments: list[str] = field(default_factory=list)
    app_cpus: list[int] = field(default_factory=list)
    cache_lines: int = 8192
    access_cpus: list[int] = field(default_factory=list)
    accesses: str = "user"  # or "read": what read(2) copies
    period_ms: int = 100
    tail_s: float = 8.0
    sample_s: float = 2.0
    timeout_s: int = 240
    expected_s: int = 80
    watch_ms: int = 0
    unit: str = "operation"
    noise_app_per_op: float = 0.0
    noise_all_per_op: float = 0.0


@dataclass(frozen=True)
class Contender:
    """[[contender]]: a mode on a kernel, with its tunables."""

    name: str
    mode: str
    kernel: str
    demotion: bool = True
    settings: dict[str, str] = field(default_factory=dict)
    args: list[str] = field(default_factory=list)  # more arguments for the workload
    damon: Tunables | None = None
    rival: bool = True
    bench_only: bool = False  # left out by `make run`


@dataclass(frozen=True)
class Check:
    """[check]: what must hold for the comparison to count."""

    rival_must_promote: bool = False
    max_promoted_share: float = 0.0
    same_huge_pages: bool = False
    min_hit_ratio: float = 0.0
    min_over_off: float = 0.0
    max_promoted_again: float = 0.0
    no_rival_better: bool = False
    max_again_times: float = 0.0
    # Of tiershift, on a machine with several sockets:
    min_hot_on_fast: float = 0.0
    min_hot_on_own: float = 0.0
    max_sideways_share: float = 0.0
    max_in_vain_share: float = 0.0


@dataclass(frozen=True)
class Scenario:
    """One scenario file."""

    name: str
    description: str
    topology: Machine
    workload: Process
    measure: Measure
    contender: list[Contender]
    service: Process | None = None
    load: Process | None = None
    placement: Placement | None = None
    check: Check = field(default_factory=Check)
    bench: bool = True  # false: by name only, or by a command of its own


@dataclass(frozen=True)
class Sweep:
    """lab/sweep.toml: rivals with other tunables, for any scenario."""

    variant: list[Contender]


# --- reading a file -----------------------------------------------------------


def _convert(value: Any, kind: Any, where: str) -> Any:
    """``value`` as ``kind``, strictly: a wrong type is the writer's mistake."""
    origin, args = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _build(kind, value, where)
    if origin is list and isinstance(value, list):
        return [_convert(item, args[0], f"{where}[{i}]") for i, item in enumerate(value)]
    if origin is dict and isinstance(value, dict):
        if args[1] is str:
            value = {key: str(item) for key, item in value.items()}
        return {key: _convert(item, args[1], f"{where}.{key}") for key, item in value.items()}
    if type(None) in args:
        return _convert(value, next(a for a in args if a is not type(None)), where)
    if kind is float and type(value) is int:
        return float(value)
    is_bool = isinstance(value, bool)  # which Python counts as an int
    if isinstance(kind, type) and isinstance(value, kind) and is_bool == (kind is bool):
        return value
    want = getattr(kind, "__name__", None) if not args else str(kind)
    raise LabError(f"{where}: {value!r} is not a {want}", "compare it with zipf-4k.toml")


def _build(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise LabError(f"{where}: must be a table", "compare it with zipf-4k.toml")
    hints = get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}
    for key in data:
        if key not in fields:
            raise LabError(f"{where}: unknown key {key!r}", "known keys: " + ", ".join(fields))
    for name, item in fields.items():
        needed = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        if needed and name not in data:
            raise LabError(f"{where}: key {name!r} is missing", "compare it with zipf-4k.toml")
    values = {key: _convert(data[key], hints[key], f"{where}: {key}") for key in data}
    return kind(**values)


def _toml(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LabError(f"{where}: {error}", "fix the TOML syntax") from error


def parse(name: str, text: str, where: str) -> Scenario:
    """A scenario from TOML text; every mistake is a LabError naming file and key."""
    data = _toml(text, where)
    if "name" in data:
        raise LabError(f"{where}: unknown key 'name'", "a scenario is named by its file")
    scenario: Scenario = _build(Scenario, {"name": name, **data}, where)
    _validate(scenario, where)
    return scenario


def _validate(scenario: Scenario, where: str) -> None:
    machine = scenario.topology.load()
    for label, cpus in _cpu_lists(scenario):
        bad = [cpu for cpu in cpus if not 0 <= cpu < machine.vcpus]
        if not cpus or bad:
            raise LabError(
                f"{where}: {label} = {cpus} does not fit a machine of {machine.vcpus} CPUs",
                f"use CPUs 0 to {machine.vcpus - 1}",
            )
    if scenario.placement:
        machine.node_id(scenario.placement.source)
        machine.node_id(scenario.placement.target)
        if scenario.placement.process not in ("service", "workload"):
            raise LabError(f"{where}: placement.process must be 'service' or 'workload'")
        if scenario.placement.process == "service" and not scenario.service:
            raise LabError(f"{where}: placement.process is 'service' but there is no [service]")
    if scenario.service and not scenario.service.ready:
        raise LabError(f"{where}: service.ready is missing", "name the socket it creates")
    for item in scenario.measure.instruments:
        if item not in INSTRUMENTS:
            raise LabError(
                f"{where}: unknown instrument {item!r}", "there are: " + ", ".join(INSTRUMENTS)
            )
    if scenario.measure.accesses not in ("user", "read"):
        raise LabError(f"{where}: measure.accesses must be 'user' or 'read'")
    if not scenario.contender:
        raise LabError(f"{where}: no [[contender]]", "compare it with zipf-4k.toml")
    names = [contender.name for contender in scenario.contender]
    known = modes()
    for contender in scenario.contender:
        if contender.mode not in known:
            raise LabError(
                f"{where}: contender {contender.name}: unknown mode {contender.mode!r}",
                "there are: " + ", ".join(known),
            )
        if names.count(contender.name) > 1:
            raise LabError(f"{where}: two contenders are named {contender.name!r}")
        for path in contender.settings:
            if not path.startswith(("/proc/sys/", "/sys/")):
                raise LabError(
                    f"{where}: contender {contender.name}: {path!r} is not a kernel tunable",
                    "write the whole path, below /proc/sys/ or /sys/",
                )
        _validate_damon(contender, machine, f"{where}: contender {contender.name}")
        moves = "--place-hot" in contender.args and scenario.workload.handshake
        if contender.mode == "oracle" and not moves:
            raise LabError(
                f"{where}: contender {contender.name}: mode 'oracle' needs a workload that moves "
                "its own hot pages",
                'let hotset do it: args = ["--place-hot", NODE, "--place-mb", MIB]',
            )


def _validate_damon(contender: Contender, machine: topology.Topology, where: str) -> None:
    if contender.mode != "damon":
        if contender.damon:
            raise LabError(f"{where}: [contender.damon] is for mode 'damon' only")
        return
    if contender.damon and contender.damon.problem():
        raise LabError(f"{where}: damon: {contender.damon.problem()}", "see lab/damon.py")
    if not damon_flows(machine, contender.demotion):
        raise LabError(
            f"{where}: mode 'damon' needs a node without CPUs", "use a two-tier topology"
        )


def _cpu_lists(scenario: Scenario) -> list[tuple[str, list[int]]]:
    lists = [
        ("topology.system_cpus", scenario.topology.system_cpus),
        ("workload.cpus", scenario.workload.cpus),
        ("measure.app_cpus", scenario.measure.app_cpus),
    ]
    if scenario.service:
        lists.append(("service.cpus", scenario.service.cpus))
    if scenario.load:
        lists.append(("load.cpus", scenario.load.cpus))
    return lists


def names() -> list[str]:
    """The scenarios that exist."""
    return sorted(path.stem for path in DIRECTORY.glob("*.toml"))


def list_scenarios() -> list[str]:
    """The scenarios that `lab bench` runs."""
    return [name for name in names() if load(name).bench]


def load(name: str) -> Scenario:
    """Read and check a scenario by name."""
    path = DIRECTORY / f"{name}.toml"
    if not path.exists():
        raise LabError(f"no scenario named {name!r}", "there are: " + ", ".join(names()))
    return parse(name, path.read_text(encoding="utf-8"), path.name)


def load_sweep(name: str) -> Scenario:
    """A scenario with the variants of lab/sweep.toml instead of its rivals.

    Its first contender without tiering and tiershift's defaults stay, to compare with.
    A variant that promotes nothing is a finding there, no failure.
    """
    scenario = load(name)
    where = SWEEP.name
    sweep: Sweep = _build(Sweep, _toml(SWEEP.read_text(encoding="utf-8"), where), where)
    modes = [contender.mode for contender in scenario.contender]
    missing = {"none", "tiershift", *(v.mode for v in sweep.variant)} - {*modes}
    if missing:
        raise LabError(f"scenario {name} has no contender of mode {', '.join(sorted(missing))}")
    kept = [scenario.contender[modes.index(mode)] for mode in ("none", "tiershift")]
    swept = dataclasses.replace(
        scenario,
        name=f"sweep-{name}",
        contender=[*kept, *sweep.variant],
        check=dataclasses.replace(scenario.check, rival_must_promote=False),
    )
    _validate(swept, f"{where} for {name}")
    return swept


# --- the job for the agent ----------------------------------------------------


def _program(name: str, built: dict[str, Path], external: dict[str, Path], out: Path) -> str:
    """Where the guest finds a program: given, built here, or of the system."""
    if name in external:
        path = external[name]
        if not os.access(path, os.X_OK):
            raise LabError(
                f"--external {name}={path}: no such program", "give the path of a binary"
            )
    elif name in built:
        path = built[name]
    else:
        found = shutil.which(name)
        if not found:
            raise LabError(
                f"the scenario's program {name!r} is neither built in the lab nor installed",
                f"install it, or give it by --external {name}=PATH",
            )
        return found
    # The guest has its own /tmp; the out directory it sees at the same path.
    copy = out / "bin" / path.name
    copy.parent.mkdir(exist_ok=True)
    shutil.copy2(path, copy)
    return str(copy)


def damon_flows(machine: topology.Topology, demotion: bool) -> list[dict[str, Any]]:
    """Which node DAMON watches, what it does there, and where pages go."""
    behind: dict[int, int] = {}  # the first slow node of each fast one
    flows: list[dict[str, Any]] = []
    for number, node in enumerate(machine.nodes):
        if not node.cpus:
            flows.append({"node": number, "action": damon.HOT, "target": node.initiator})
            behind.setdefault(node.initiator, number)
    if demotion:
        flows += [
            {"node": fast, "action": damon.COLD, "target": slow} for fast, slow in behind.items()
        ]
    return flows


def damon_job(contender: Contender, machine: topology.Topology) -> dict[str, Any] | None:
    """What lab/damon.py is told in the guest; None in other modes."""
    if contender.mode != "damon":
        return None
    return {
        "tunables": dataclasses.asdict(contender.damon or Tunables()),
        "flows": damon_flows(machine, contender.demotion),
    }


def make_job(
    scenario: Scenario,
    contender: Contender,
    out: Path,
    built: dict[str, Path],
    external: dict[str, Path],
) -> dict[str, Any]:
    """What lab/agent.py is told for one contender."""
    machine = scenario.topology.load()
    mode = modes()[contender.mode]

    def process(spec: Process | None, more: Sequence[str] = ()) -> dict[str, Any] | None:
        if spec is None:
            return None
        argv = [_program(spec.program, built, external, out), *spec.args, *more]
        return {**dataclasses.asdict(spec), "argv": argv}

    placement = None
    if scenario.placement:
        placement = {
            "process": scenario.placement.process,
            "from": [machine.node_id(scenario.placement.source)],
            "to": machine.node_id(scenario.placement.target),
            "min_share": scenario.placement.min_share,
        }
    switch = demotion_switch(contender.mode)
    demotion = (switch, "1" if contender.demotion else "0")
    return {
        "out": str(out),
        "mode": contender.mode,
        # From the beginning: kswapd of a node that fills up without it gives up for good.
        "settings": [demotion, *contender.settings.items()],
        "enter": [demotion, *(one for one in mode.enter if one[0] not in contender.settings)],
        "leave": [*mode.leave, (switch, "0")],
        "needs": [*mode.needs],
        "counters": manifest.counters(),
        "threads": manifest.threads(),
        "damon": damon_job(contender, machine),
        "oracle": contender.mode == "oracle",
        "system_cpus": scenario.topology.system_cpus,
        "service": process(scenario.service),
        "load": process(scenario.load),
        "workload": process(scenario.workload, contender.args),
        "placement": placement,
        "watch": {
            "argv": [_program("watch", built, {}, out)],
            "period_ms": scenario.measure.watch_ms,
            "fast": ",".join(map(str, machine.fast)),
        }
        if scenario.measure.watch_ms
        else None,
        "sample_s": scenario.measure.sample_s,
        "timeout_s": scenario.measure.timeout_s,
        "labmark": _program("labmark", built, {}, out),
        "calibrate": "access" in scenario.measure.instruments,
    }


def copy_agent(out: Path) -> list[str]:
    """Put the agent where the guest sees it; the command that runs it, without the job."""
    package = out / "agent" / "lab"
    package.mkdir(parents=True)
    for name in AGENT:
        shutil.copy2(Path(__file__).parent / name, package / name)
    search = f"PYTHONPATH={package.parent}"
    return ["/usr/bin/env", search, "/usr/bin/python3", str(package / "agent.py")]


# --- running ------------------------------------------------------------------


class Live:
    """One status line that follows a run: step, time, operations, fast share."""

    def __init__(self, stream: TextIO, title: str, expected: float, cpus: list[int]) -> None:
        self.stream, self.title, self.expected, self.cpus = stream, title, expected, cpus
        self.phase = "boot"
        self.access: Path | None = None
        self.fast: list[int] = []
        self._ops = ""
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._tty = stream.isatty()
        self._printed = 0.0
        self._region, self._last = 0, (0, 0)
        self._share: float | None = None
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def __enter__(self) -> Live:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._show(final=True)

    def on_line(self, line: str) -> None:
        """A line of the agent (lab/agent.py: say)."""
        if not line.startswith("LAB "):
            return
        try:
            event = json.loads(line[4:])
        except json.JSONDecodeError:
            return
        kind = event.get("kind")
        if kind == "load":
            self.phase, self._ops = "load", f"{event['ops']} keys"
        elif kind == "placed":
            self.phase, self._ops = "placed on the slow node", f"{event['share']:.1%}"
        elif kind == "start":
            self.phase, self._ops = "run", ""
        elif kind == "progress":
            self._ops = f"{event['ops']} ops in {event['t']:.0f} s"
        elif kind == "stop":
            self.phase = "collect"
        elif kind == "error":
            self.phase = "failed"

    def _read_access(self) -> None:
        """The fast tier's share since the last look, from access.so's output."""
        if not self.access or not self.access.exists() or self.phase != "run":
            return
        with open(self.access, "rb") as handle:
            handle.seek(max(0, handle.seek(0, os.SEEK_END) - 8192))
            lines = handle.read().split(b"\n")
        for line in reversed(lines[:-1]):  # the last piece may be half a line
            try:
                sample = instruments.parse_access_line(line.decode())
            except (ValueError, KeyError):
                continue
            if sample.region != self._region:  # counts begin anew
                self._region, self._last = sample.region, (0, 0)
            _, fast, slow = metrics.access_point(sample, self.cpus, self.fast)
            if fast + slow > self._last[1]:
                self._share = (fast - self._last[0]) / (fast + slow - self._last[1])
                self._last = (fast, fast + slow)
            return

    def _loop(self) -> None:
        while not self._stop.wait(1.0):
            self._read_access()
            self._show()

    def _show(self, *, final: bool = False) -> None:
        now = time.monotonic()
        if not (self._tty or final or now - self._printed >= 5):
            return
        self._printed = now
        share = "" if self._share is None else f"  fast tier serves {self._share:.1%}"
        phase = "done" if final and self.phase != "failed" else self.phase
        text = (
            f"{self.title}  {now - self._began:3.0f} s of about {self.expected:.0f} s  "
            f"{phase}  {self._ops}{share}"
        )
        if self._tty:
            width = shutil.get_terminal_size().columns - 1
            self.stream.write("\r" + text[:width].ljust(width) + ("\n" if final else ""))
        else:
            self.stream.write(text + "\n")
        self.stream.flush()


def _plugins(scenario: Scenario, kernel: Kernel, out: Path, cache: Path) -> list[str]:
    machine, measure = scenario.topology.load(), scenario.measure
    if not measure.instruments:
        return []
    built = instruments.build_plugins(cache / "programs")
    args = []
    if "access" in measure.instruments:
        args.append(
            instruments.access_plugin(
                machine,
                out / "access.jsonl",
                plugins=built,
                lines=measure.cache_lines,
                vcpus=measure.access_cpus or measure.app_cpus,
                period_ms=measure.period_ms,
                copies=instruments.copy_routine(kernel.system_map)
                if measure.accesses == "read"
                else None,
            )
        )
    if "insn" in measure.instruments:
        args.append(
            instruments.insn_plugin(
                kernel.system_map,
                out / "insn.json",
                plugins=built,
                apart=instruments.IDLE_SYMBOLS.union(metrics.SPIN_SYMBOLS),
            )
        )
    if "tlb" in measure.instruments:
        args.append(instruments.tlb_plugin(out / "tlb.json", plugins=built))
    return args


def agent_results(out: Path, exit_code: int, what: str) -> dict[str, Any]:
    """What the agent wrote; a LabError if it did not get to the end."""
    path = out / "results.json"
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if exit_code or "error" in data or not data:
        raise LabError(
            f"{what}: " + data.get("error", f"the agent ended with code {exit_code}"),
            f"the logs are in {out}",
        )
    return data


def run_contender(
    scenario: Scenario,
    contender: Contender,
    kernel: Kernel,
    *,
    out: Path,
    cache: Path,
    external: dict[str, Path],
    live: Live,
) -> dict[str, Any]:
    """Boot, run the job, and gather what agent and instruments wrote."""
    if out.exists():
        shutil.rmtree(out)
    out.mkdir(parents=True)
    built = programs.build_programs(cache / "programs")
    job = make_job(scenario, contender, out, built, external)
    (out / "job.json").write_text(json.dumps(job, indent=1), encoding="utf-8")
    agent = copy_agent(out)
    live.access = out / "access.jsonl"
    machine = scenario.topology.load()
    live.fast = machine.fast
    result = guest.run(
        kernel.image,
        machine,
        shlex.join([*agent, str(out / "job.json")]),
        out_dir=out,
        timeout_s=3 * scenario.measure.timeout_s // 2 + 120,  # load, run, and the rest
        plugins=_plugins(scenario, kernel, out, cache),
        append=scenario.topology.append,
        on_line=live.on_line,
    )
    data = agent_results(out, result.exit_code, f"scenario {scenario.name}, {contender.name}")
    shutil.rmtree(out / "bin", ignore_errors=True)
    return {
        "name": contender.name,
        "date": _utc(time.time()),
        "mode": contender.mode,
        "rival": contender.rival,
        "settings": contender.settings,
        "damon": (damon_job(contender, machine) or {}).get("tunables"),
        "args": contender.args,
        "demotion": contender.demotion,
        "kernel": kernel.describe(),
        "seconds_total": round(result.seconds, 1),
        "agent": data,
        **metrics.instruments_of(scenario.measure, machine, out, kernel.system_map),
    }


def expected_seconds(cache: Path, key: str, guess: float) -> float:
    """How long this took last time on this machine, else the scenario's guess."""
    try:
        seconds = json.loads((cache / "durations.json").read_text(encoding="utf-8"))[key]
    except (OSError, ValueError, KeyError):
        return guess
    return float(seconds)


def remember(cache: Path, key: str, seconds: float) -> None:
    path = cache / "durations.json"
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    known[key] = round(seconds, 1)
    path.write_text(json.dumps(known), encoding="utf-8")


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def kept_runs(
    scenario: Scenario,
    earlier: dict[str, Any],
    again: list[str],
    describe: Callable[[str], dict[str, Any]],
) -> list[dict[str, Any]]:
    """The contenders of an earlier result but for ``again``: if they would be run as before.

    ``describe`` says what a kernel flavour is now, as ``Kernel.describe`` does.
    """
    setup = json.loads(
        json.dumps(
            [dataclasses.asdict(scenario), scenario.topology.load()], default=dataclasses.asdict
        )
    )
    kept = [run for run in earlier["contenders"] if run["name"] not in again]
    flavours = {contender.name: contender.kernel for contender in scenario.contender}
    other = [
        run["name"]
        for run in kept
        if run["name"] not in flavours or run["kernel"] != describe(flavours[run["name"]])
    ]
    if [earlier["setup"], earlier["machine"]] != setup or other:
        what = "the kernels of " + ", ".join(other) if other else "the scenario or its machine"
        raise LabError(
            f"{scenario.name}: {what} changed since the result that is kept",
            "run all contenders, without --again",
        )
    return [{"date": earlier["date"], **run} for run in kept]


def run_scenario(
    scenario: Scenario,
    *,
    kernels: Callable[[str], Kernel],
    out_dir: Path,
    cache: Path,
    external: dict[str, Path] | None = None,
    contenders: list[str] | None = None,
    bench: bool = True,
    earlier: dict[str, Any] | None = None,
    progress: TextIO = sys.stderr,
) -> dict[str, Any]:
    """Run all contenders of a scenario (or those named) and compare them.

    Without ``bench`` those are left out that are there for ``lab bench`` only.  With an
    ``earlier`` result, what is not named is taken from that.

    The result's "failures" lists the checks that did not hold; a comparison
    with any is not to be trusted, and the caller must say so.
    """
    name = scenario.name
    known = [contender.name for contender in scenario.contender]
    for wanted in contenders or []:
        if wanted not in known:
            raise LabError(
                f"scenario {name} has no contender {wanted!r}", "it has: " + ", ".join(known)
            )
    chosen = [
        c
        for c in scenario.contender
        if (c.name in contenders if contenders else bench or not c.bench_only)
    ]
    kept = []
    if earlier:
        kept = kept_runs(
            scenario, earlier, contenders or [], lambda flavour: kernels(flavour).describe()
        )
    out_dir.mkdir(parents=True, exist_ok=True)
    began = time.time()
    runs: list[dict[str, Any]] = []
    needs = [
        expected_seconds(cache, f"{name}/{c.name}", scenario.measure.expected_s) for c in chosen
    ]
    print(
        f"{name}: {scenario.description}\n"
        f"{len(chosen)} contenders, about {sum(needs) / 60:.1f} minutes",
        file=progress,
        flush=True,
    )
    for number, (contender, expected) in enumerate(zip(chosen, needs, strict=True), 1):
        kernel = kernels(contender.kernel)
        key = f"{name}/{contender.name}"
        title = f"[{number}/{len(chosen)}] {name}: {contender.name}@{kernel.flavour}"
        start = time.monotonic()
        with Live(progress, title, expected, scenario.measure.app_cpus) as live:
            try:
                runs.append(
                    run_contender(
                        scenario,
                        contender,
                        kernel,
                        out=out_dir.resolve() / contender.name,
                        cache=cache,
                        external=external or {},
                        live=live,
                    )
                )
            except BaseException:
                live.phase = "failed"
                raise
        remember(cache, key, time.monotonic() - start)
    result = {
        "schema": SCHEMA,
        "scenario": name,
        "description": scenario.description,
        "command": command_line(sys.argv),
        "date": _utc(began),
        "seconds": round(time.time() - began, 1),
        "host": ledger.host_info(),
        "setup": dataclasses.asdict(scenario),
        "machine": dataclasses.asdict(scenario.topology.load()),
        "contenders": sorted([*kept, *runs], key=lambda run: known.index(run["name"])),
    }
    result["metrics"] = metrics.derive(result)
    result["failures"] = metrics.check(result)
    return result


def command_line(argv: list[str]) -> str:
    """The command as a reader would repeat it, without this machine's paths."""
    first = Path(argv[0])
    name = ["python", "-m", first.parent.name] if first.name == "__main__.py" else [first.name]
    return shlex.join([*name, *argv[1:]])
