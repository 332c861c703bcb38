# SPDX-License-Identifier: GPL-2.0
"""Fixtures: kernels (built on demand, cached by content) and machines.  And how long it takes."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import budget
import pytest

from lab import build, cache, manifest, rooms, run, source, topology
from lab.build import KernelImage
from lab.manifest import Manifest
from lab.rooms import Room
from lab.topology import Topology

# What takes longest begins first, so that two workers end together.
LONGEST_FIRST = (
    "test_faults.py",
    "test_selftests.py",
    "test_rooms.py",
    "test_kernel_static.py",
    "test_small_scenario.py",
)
TESTS = Path(__file__).resolve().parent
LONG = TESTS / "long"

# A background job of a shell ignores Ctrl-C, and so do programs that its tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # xdist reads its marks in this hook, too
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order by the expected time; keep what shares a git work tree on one worker."""

    def rank(item: pytest.Item) -> int:
        name = item.path.name
        return LONGEST_FIRST.index(name) if name in LONGEST_FIRST else len(LONGEST_FIRST)

    items.sort(key=rank)
    for item in items:
        if LONG in item.path.parents:
            item.add_marker(pytest.mark.long)
        if item.path.name in ("test_rooms.py", "test_kernel_static.py"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(scope="session")
def base_kernel() -> KernelImage:
    """The unmodified kernel."""
    return build.kernel("base")


@pytest.fixture(scope="session")
def tiershift_kernel() -> KernelImage:
    """The kernel with all rooms, configured for measuring."""
    return build.kernel("tiershift")


@pytest.fixture(scope="session")
def torture_kernel() -> KernelImage:
    """The one for measuring, with the switches that break MIGRC's rules."""
    return build.kernel("torture")


@pytest.fixture(scope="session")
def debug_kernel() -> KernelImage:
    """The kernel with all rooms and every check switched on."""
    return build.kernel("debug")


@pytest.fixture(scope="session")
def version() -> str:
    """The base version that is built."""
    return source.newest()


@pytest.fixture
def two_tier() -> Topology:
    """The default machine."""
    return topology.load("two-tier")


@pytest.fixture
def out_dir(tmp_path: Path) -> Path:
    """A directory that a guest may write to."""
    return tmp_path / "out"


# --- answers that are the same for as long as the tests run --------------------------------


@pytest.fixture(scope="session", autouse=True)
def _manifests_once() -> Iterator[None]:
    """The manifest of each room of the checkout is read once; one that a test makes, each time."""
    read, known, linux = manifest.read, dict[Room, Manifest](), rooms.LINUX

    def once(room: Room) -> Manifest:
        if room.path.parent != linux:
            return read(room)
        if room not in known:
            known[room] = read(room)
        return known[room]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest, "read", once)
        yield


@pytest.fixture(scope="session", autouse=True)
def _apt_once() -> Iterator[None]:
    """apt is asked once for what it knows, which takes half a second.

    A test that has an apt of its own, or another configuration of it, asks that one.
    """
    output, known, environ = run.output, dict[tuple[str, ...], str](), dict(os.environ)

    def once(argv: Any, **options: Any) -> str:
        words = tuple(map(str, argv))
        same = all(os.environ.get(name) == environ.get(name) for name in ("PATH", "APT_CONFIG"))
        if words[0] != "apt-cache" or not same or {*options} - {"todo"}:
            return output(argv, **options)
        if words not in known:
            known[words] = output(argv, **options)
        return known[words]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "output", once)
        yield


# --- how long it takes --------------------------------------------------------------------


class Clock:
    """Measures a run.  Each worker tells the CPU time of its tests and what it has built."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.worker: dict[str, Any] | None = getattr(config, "workeroutput", None)
        self.began, self.cpu_began = time.monotonic(), 0.0
        self.built: list[str] = []
        self.files: dict[str, budget.Spent] = defaultdict(budget.Spent)
        self.told: list[str] = []
        make = build._build

        def counted(flavour: str, *args: Any) -> None:
            self.built.append(flavour)
            make(flavour, *args)

        pytest.MonkeyPatch().setattr(build, "_build", counted)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self.cpu_began = _cpu_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            report.user_properties.append(("cpu_s", _cpu_s() - self.cpu_began))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.partition("::")[0].removeprefix("tests/")
        self.files[name].seconds += report.duration
        if report.when == "teardown":
            found = dict(report.user_properties)
            self.files[name].cpu_s += float(str(found.get("cpu_s", 0)))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.built += getattr(node, "workeroutput", {}).get("built", [])

    def _narrowed(self) -> bool:
        option = self.config.option
        chosen = (option.keyword, option.deselect, option.ignore, option.ignore_glob)
        other = option.markexpr != "not long" or option.maxfail or option.collectonly
        again = getattr(option, "lf", False) or getattr(option, "stepwise", False)
        return any(chosen) or bool(other) or bool(again)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self.worker is not None:
            self.worker["built"] = self.built
            return
        base = self.config.invocation_params.dir
        tiers = budget.whole(self.config.args, TESTS, base, narrowed=self._narrowed())
        if exitstatus != pytest.ExitCode.OK or not tiers:
            return
        measured = budget.Session(
            files=self.files,
            seconds=time.monotonic() - self.began,
            tiers=tiers,
            warm=not self.built,
            workers=int(getattr(self.config.option, "numprocesses", None) or 1),
            cpus=os.cpu_count() or 1,
        )
        found = budget.judge(measured)
        self.told = [str(one) for one in found]
        if any(one.error for one in found):
            self.told.append(budget.ADVICE)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if set(tiers) == set(budget.TIERS):
            _keep(measured)

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # after all other summaries: it is to be seen
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        yield
        for line in self.told:
            terminalreporter.write_line(line, yellow=True)


def _cpu_s() -> float:
    """CPU seconds of this process and of those that it has waited for."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def _keep(measured: budget.Session) -> None:
    """The latest whole run, for those who look for what is slow."""
    files = {
        name: {"seconds": round(one.seconds, 1), "cpu_s": round(one.cpu_s, 1)}
        for name, one in sorted(measured.files.items(), key=lambda item: -item[1].seconds)
    }
    facts = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(measured.seconds, 1),
        "warm": measured.warm,
        "workers": measured.workers,
        "files": files,
    }
    path = cache.root() / "tests.json"
    path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Clock(config), "clock")
