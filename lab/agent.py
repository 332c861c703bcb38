#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Runs one measured job inside the guest: ``agent.py JOB.json``.

The job (written by lab/scenario.py) says what to start and on which CPUs,
which process to place on the slow node, and which files to write to switch a
tiering mode on and off.  The order is what makes a result mean something:

  1. everything off, tunables written (some are read when a program starts); start the
     service and load it, or set up the workload
  2. place: migrate_pages(2) to the slow node, under the default policy
  3. verify the placement on a still machine; too little there is an error;
     then an oracle moves its own hot pages to the fast node (workloads/hotset.c)
  4. read the counters, switch the mode on, let the workload go
  5. sample the counters while it runs
  6. the workload is done: read the counters again, switch the mode off
  7. write results.json

Counters are therefore of the measured interval only.  The workload emits the
START and STOP markers itself (lab/workloads/common.h); for a program that
does not know them the agent stops it (SIGSTOP) while it places, and emits
the markers through labmark.

Standard library, lab/damon.py and lab/looks.py only, and few wake-ups: Python is slow under
emulation.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import platform
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lab import damon
from lab.looks import Looks

SCHEMA = 1
STOP_S = 0.1  # until a stopped job has left the kernel
MIGRATE_PAGES = {"x86_64": 256, "aarch64": 238}
# Counters worth keeping; everything else in /proc/vmstat is noise here.  Those of rooms, and
# their threads, are in the job (lab/manifest.py): the guest has no linux/.
COUNTERS = (
    r"pgpromote_|pgdemote_|numa_|pgmigrate_|nr_tlb_|thp_split|thp_migration_|thp_fault_alloc"
    r"|pswp|allocstall|nr_anon_transparent_hugepages|pgscan_|pgsteal_"
    r"|pgfault|pgmajfault|workingset_"
)
# Kernel threads whose run time is kept.
THREADS = r"kdamond|kswapd|kcompactd|khugepaged"


class JobError(Exception):
    """The job cannot be done as asked; the text says why."""


def say(kind: str, **values: Any) -> None:
    """One line for the host, which follows the run by it."""
    print("LAB " + json.dumps({"kind": kind, **values}), flush=True)


def _reads(path: str, value: str) -> bool:
    try:
        return Path(path).read_text(encoding="ascii").strip() == value
    except OSError:
        return False


def write_setting(path: str, value: str, patience: float = 10.0) -> None:
    """Write a kernel file, again while it is busy: DAMON's are while a kdamond looks.

    A state that is reached already can be refused as busy, too: that is fine.
    """
    limit = time.monotonic() + patience
    while True:
        try:
            Path(path).write_text(value, encoding="ascii")
            return
        except OSError as error:
            if error.errno == errno.EBUSY and _reads(path, value):
                return
            if error.errno != errno.EBUSY or time.monotonic() > limit:
                raise JobError(f"cannot write {value!r} to {path}: {error.strerror}") from error
        time.sleep(0.02)


def mount_debugfs() -> None:
    """Scheduler tunables live in debugfs, which need not be mounted."""
    if not Path("/sys/kernel/debug/sched").exists():
        subprocess.run(
            ["/bin/mount", "-t", "debugfs", "none", "/sys/kernel/debug"],
            check=False,
            capture_output=True,
        )


def counter_names(more: Iterable[str]) -> re.Pattern[str]:
    """What the names of counters that are kept begin with; ``more`` are those of rooms."""
    return re.compile("|".join((COUNTERS, *more)))


def thread_names(more: Iterable[str]) -> re.Pattern[str]:
    """The names of threads that are timed; ``more`` are those of rooms."""
    return re.compile(rf"({'|'.join((THREADS, *more))})[.\d]*$")


def counters(more: Iterable[str]) -> dict[str, int]:
    """The selected rows of /proc/vmstat."""
    names = counter_names(more)
    pairs = (line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return {name: int(value) for name, value in pairs if names.match(name)}


def interrupts(label: str) -> list[int]:
    """One row of /proc/interrupts, per CPU."""
    for line in Path("/proc/interrupts").read_text().splitlines():
        words = line.split()
        if words and words[0] == label + ":":
            return [int(word) for word in words[1:] if word.isdigit()]
    return []


def cpu_ticks() -> dict[str, list[int]]:
    """User, system, idle clock ticks per CPU, from /proc/stat."""
    result = {}
    for line in Path("/proc/stat").read_text().splitlines():
        words = line.split()
        if re.fullmatch(r"cpu\d+", words[0]):
            n = [int(word) for word in words[1:]]
            result[words[0][3:]] = [n[0] + n[1], n[2] + n[5] + n[6], n[3] + n[4]]
    return result


def residency(pid: int) -> dict[str, int]:
    """Anonymous pages of a program per node, in 4 KiB pages, from numa_maps."""
    found: dict[str, int] = {}
    maps = [Path(f"/proc/{one}/numa_maps").read_text() for one in family(pid)]
    for line in "".join(maps).splitlines():
        if " anon=" not in line:
            continue  # page cache: shared with other processes and not moved
        size = re.search(r"kernelpagesize_kB=(\d+)", line)
        scale = int(size.group(1)) // 4 if size else 1
        for node, pages in re.findall(r" N(\d+)=(\d+)", line):
            found[node] = found.get(node, 0) + int(pages) * scale
    return found


def migrate(pid: int, sources: list[int], target: int) -> None:
    """migrate_pages(2): every page of a process that is on ``sources``."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = MIGRATE_PAGES.get(platform.machine())
    if number is None:
        raise JobError(f"migrate_pages: unknown system call number on {platform.machine()}")
    old = ctypes.c_ulong(sum(1 << node for node in sources))
    new = ctypes.c_ulong(1 << target)
    if libc.syscall(number, pid, 64, ctypes.byref(old), ctypes.byref(new)) < 0:
        raise JobError(f"migrate_pages of pid {pid}: {os.strerror(ctypes.get_errno())}")


def place(pid: int, placement: dict[str, Any]) -> dict[str, Any]:
    """Put a program on its node and prove that it is there."""
    began = time.monotonic()
    want = str(placement["to"])
    share = 0.0
    pages: dict[str, int] = {}
    for _ in range(3):  # pages in per-CPU LRU batches need another try
        for one in family(pid):
            migrate(one, placement["from"], placement["to"])
        pages = residency(pid)
        share = pages.get(want, 0) / max(1, sum(pages.values()))
        if share >= 0.999:
            break
    if share < placement["min_share"]:
        raise JobError(
            f"only {share:.1%} of the memory is on node {want} after migrate_pages "
            f"(pages per node: {pages}); is that node large enough?"
        )
    return {"pages": pages, "share": share, "seconds": time.monotonic() - began}


def kernel_threads(more: Iterable[str]) -> dict[str, float]:
    """Seconds that each of the kernel threads that are timed has run, by name."""
    names = thread_names(more)
    found: dict[str, float] = {}
    for comm in Path("/proc").glob("[0-9]*/comm"):
        # A process may end while we look.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            name = comm.read_text().strip()
            if not names.match(name):
                continue
            text = comm.with_name("sched").read_text()
            run = re.search(r"^se\.sum_exec_runtime\s*:\s*([\d.]+)$", text, re.M)
            if run:
                found[name] = found.get(name, 0.0) + float(run[1]) / 1000
    return found


def _stat(pid: int | str) -> list[int]:
    """/proc/PID/stat from the parent's number on, without the state before it."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [int(word) for word in words[1:]]


def family(pid: int) -> list[int]:
    """A program that the agent started, and the processes that it has made."""
    found = [pid]
    for directory in Path("/proc").glob("[0-9]*"):
        if directory.name == str(pid):
            continue
        # A process may end while we look.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if _stat(directory.name)[2] == pid:  # its session
                found.append(int(directory.name))
    return found


def process_times(pid: int) -> dict[str, float]:
    """Seconds that a program's processes have run, in user code and in the kernel.

    What a process has waited for is in its own figures, so if one ends while we look, its
    parent has them the next time.
    """
    while True:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            times = [_stat(one)[10:14] for one in family(pid)]
            break
        _stat(pid)  # that one has to be there
    tick = os.sysconf("SC_CLK_TCK")
    return {
        "user": sum(user + waited for user, _, waited, _ in times) / tick,
        "system": sum(system + waited for _, system, _, waited in times) / tick,
    }


def less(after: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    """What was added; a name that is new began at nothing."""
    return {name: round(value - before.get(name, 0.0), 6) for name, value in after.items()}


class Program:
    """A program under the agent: pinned, with its output read line by line."""

    def __init__(self, spec: dict[str, Any], log: Path, *, pipe: bool) -> None:
        self.name = Path(spec["argv"][0]).name
        self.lines: list[str] = []
        self._rest = b""
        self._log = log
        cpus = ",".join(str(cpu) for cpu in spec["cpus"])
        argv = ["/usr/bin/taskset", "-c", cpus, *spec["argv"]]
        environment = dict(os.environ, **spec.get("env", {}))
        with open(log, "wb") as output:
            try:
                self.process = subprocess.Popen(
                    argv,
                    stdin=subprocess.PIPE if pipe else subprocess.DEVNULL,
                    stdout=subprocess.PIPE if pipe else output,
                    stderr=output,
                    env=environment,
                    start_new_session=True,
                )
            except OSError as error:
                raise JobError(f"cannot start {spec['argv'][0]}: {error.strerror}") from error

    def read(self, timeout: float) -> list[str] | None:
        """New lines within ``timeout`` seconds; None at end of output."""
        pipe = self.process.stdout
        assert pipe
        if not select.select([pipe], [], [], timeout)[0]:
            return []
        data = os.read(pipe.fileno(), 65536)
        if not data:
            return None
        *whole, self._rest = (self._rest + data).split(b"\n")
        new = [line.decode(errors="replace") for line in whole]
        self.lines += new
        return new

    def fail(self, what: str) -> JobError:
        words = self._log.read_text(errors="replace").strip().splitlines()[-5:]
        last = " | ".join(self.lines[-3:] + words) or "it printed nothing"
        return JobError(f"{self.name} {what}: {last}")

    def wait_for(self, word: str, seconds: float) -> None:
        """Read until the program prints ``word``."""
        limit = time.monotonic() + seconds
        while word not in self.lines:
            new = self.read(0.5)
            if new is None:
                raise self.fail(f"ended before it printed {word}")
            if time.monotonic() > limit:
                raise self.fail(f"did not print {word} within {seconds:g} s")

    def go(self) -> None:
        assert self.process.stdin
        self.process.stdin.write(b"GO\n")
        self.process.stdin.flush()

    def finish(self, seconds: float) -> None:
        """Wait for the end; a code other than 0 is an error."""
        limit = time.monotonic() + seconds
        while self.process.stdout and time.monotonic() < limit:
            if self.read(0.5) is None:
                break
        try:
            code = self.process.wait(timeout=max(1.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            raise self.fail(f"did not end within {seconds:g} s") from None
        if code:
            raise self.fail(f"ended with code {code}")

    def result(self) -> dict[str, Any]:
        for line in reversed(self.lines):
            if line.startswith("RESULT "):
                found: dict[str, Any] = json.loads(line[7:])
                return found
        raise self.fail("printed no RESULT line")

    def signal_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """It stands still, if it runs at all.

        Settings that patch the kernel's code are better written then: QEMU's TCG may let a
        CPU that executes that code run into a breakpoint (lab/guest.py).
        """
        self.signal_group(signal.SIGSTOP)
        time.sleep(STOP_S)
        try:
            yield
        finally:
            self.signal_group(signal.SIGCONT)

    def kill(self) -> None:
        self.signal_group(signal.SIGKILL)
        self.process.wait()


def node_sizes() -> dict[str, dict[str, int]]:
    """Memory of each node, all of it and what is free."""
    sizes = {}
    for node in sorted(Path("/sys/devices/system/node").glob("node[0-9]*")):
        words = (node / "meminfo").read_text().split()
        sizes[node.name] = {"total_kb": int(words[3]), "free_kb": int(words[8])}
    return sizes


class Recorder:
    """Counters before, during and after the measured interval."""

    def __init__(
        self, sample_s: float, pid: int, counters: Sequence[str], threads: Sequence[str]
    ) -> None:
        self.sample_s = sample_s
        self.pid = pid  # of the application
        self.counters, self.threads = counters, threads  # of rooms
        self.series: list[dict[str, Any]] = []
        self.progress: list[dict[str, Any]] = []
        self.began = self.ended = 0.0
        self._due = 0.0
        self.first: dict[str, Any] = {}
        self.last: dict[str, Any] = {}

    def _all(self) -> dict[str, Any]:
        return {
            "vmstat": counters(self.counters),
            "tlb": interrupts("TLB"),
            "ticks": cpu_ticks(),
            "threads": kernel_threads(self.threads),
            "process": process_times(self.pid),
        }

    def start(self) -> None:
        self.first = self._all()
        self.began = time.monotonic()
        self._due = self.began + self.sample_s

    def sample(self) -> bool:
        """Whether it was due."""
        now = time.monotonic()
        if now < self._due:
            return False
        base = self.first["vmstat"]
        now_values = counters(self.counters)
        changed = {k: v - base.get(k, 0) for k, v in now_values.items() if v != base.get(k, 0)}
        free = {name: size["free_kb"] for name, size in node_sizes().items()}
        self.series.append({"t": round(now - self.began, 3), "free_kb": free, **changed})
        self._due = now + self.sample_s
        return True

    def line(self, line: str) -> None:
        if line.startswith("PROGRESS "):
            point = json.loads(line[9:])
            self.progress.append(point)
            say("progress", **point)

    def stop(self) -> None:
        self.ended = time.monotonic()
        self.last = self._all()

    def result(self) -> dict[str, Any]:
        first, last = self.first, self.last
        before, after = first["vmstat"], last["vmstat"]
        return {
            "seconds": self.ended - self.began,
            "before": before,
            "delta": {name: after[name] - before.get(name, 0) for name in after},
            "tlb_interrupts": [b - a for a, b in zip(first["tlb"], last["tlb"], strict=True)],
            "cpu_ticks": {
                cpu: [b - a for a, b in zip(first["ticks"][cpu], ticks, strict=True)]
                for cpu, ticks in last["ticks"].items()
            },
            "thread_s": less(last["threads"], first["threads"]),
            "process_s": less(last["process"], first["process"]),
            "series": self.series,
            "progress": self.progress,
        }


def environment() -> dict[str, Any]:
    """What the guest looks like: kernel, tiers, demotion targets."""
    tiers = {}
    for tier in sorted(Path("/sys/devices/virtual/memory_tiering").glob("memory_tier*")):
        tiers[tier.name] = (tier / "nodelist").read_text().strip()
    return {
        "release": platform.release(),
        "version": platform.version(),
        "cpus": os.cpu_count(),
        "tiers": tiers,
        "nodes": node_sizes(),
    }


def start_service(job: dict[str, Any], out: Path) -> Program:
    spec = job["service"]
    service = Program(spec, out / "service.log", pipe=False)
    limit = time.monotonic() + 60
    while not Path(spec["ready"]).exists():
        if service.process.poll() is not None:
            raise service.fail("ended at once")
        if time.monotonic() > limit:
            raise service.fail(f"did not create {spec['ready']} within 60 s")
        time.sleep(0.5)
    return service


def load_service(job: dict[str, Any], out: Path) -> dict[str, Any]:
    loader = Program(job["load"], out / "load.log", pipe=True)
    limit = time.monotonic() + job["timeout_s"]
    while True:
        new = loader.read(0.5)
        if new is None:
            break
        for line in new:
            if line.startswith("PROGRESS "):
                say("load", **json.loads(line[9:]))
        if time.monotonic() > limit:
            loader.kill()
            raise loader.fail("took too long")
    loader.finish(30)
    return loader.result()


def unreclaimable(zoneinfo: str) -> list[int]:
    """Nodes whose kswapd has given up, from /proc/zoneinfo."""
    nodes: dict[int, bool] = {}
    node = -1
    for line in zoneinfo.splitlines():
        words = line.split()
        if line.startswith("Node "):
            node = int(words[1].rstrip(","))
        elif words[:1] == ["node_unreclaimable:"]:
            nodes[node] = words[1] != "0"
    return [nid for nid, gave_up in sorted(nodes.items()) if gave_up]


def gave_up() -> list[int]:
    return unreclaimable(Path("/proc/zoneinfo").read_text(encoding="ascii"))


def measure(
    job: dict[str, Any], workload: Program, placed: int, recorder: Recorder
) -> dict[str, Any]:
    """Steps 2 to 6; returns what the placement found, and what DAMON did."""
    spec = job["workload"]
    if not spec["handshake"]:
        workload.signal_group(signal.SIGSTOP)
    found: dict[str, Any] = {"placement": None}
    if job["placement"]:
        found["placement"] = place(placed, job["placement"])
        say("placed", **found["placement"])
    if job["oracle"]:
        workload.go()
        workload.wait_for("PLACED", job["timeout_s"])
    if job["calibrate"]:
        subprocess.run([job["labmark"], "calibrate"], check=True)
    looks = Looks(job["looks"], Path(job["out"])) if job.get("looks") else None
    if looks:
        looks.before()
    if job["damon"]:
        prepare_damon(job["damon"])
    watch = start_watch(job, placed) if job["watch"] else None

    time.sleep(0.5)  # let per-CPU work of the placement drain
    found["gave_up"] = {"before": gave_up()}
    recorder.start()
    for path, value in job["enter"]:
        write_setting(path, value)
    if job["damon"]:
        damon.switch(job["damon"], "on", write_setting)
    say("start")
    if spec["handshake"]:
        workload.go()
    else:
        subprocess.run([job["labmark"], "start"], check=True)
        workload.signal_group(signal.SIGCONT)
    over = False
    limit = recorder.began + job["timeout_s"]
    until = recorder.began + spec["duration_s"] if spec["duration_s"] else limit
    while not over:
        new = workload.read(recorder.sample_s)
        for line in new or []:
            recorder.line(line)
            over = over or (spec["handshake"] and line == "DONE")
        if recorder.sample() and looks:
            looks.during()
        now = time.monotonic()
        if new is None:
            if spec["handshake"] and not over:
                raise workload.fail("ended before it was done")
            over = True
        elif not over and now > until:
            if spec["handshake"] or not spec["duration_s"]:
                workload.kill()
                raise workload.fail(f"was not done within {job['timeout_s']} s")
            over = True
    if not spec["handshake"]:
        subprocess.run([job["labmark"], "stop"], check=True)
    recorder.stop()
    say("stop")
    if looks:
        looks.take("after")
    found["gave_up"]["after"] = gave_up()
    if watch:
        found["watch"] = stop_watch(watch)
    if job["damon"]:
        found["damon"] = damon.stop(job["damon"], write_setting)
    with workload.stopped():
        for path, value in job["leave"]:
            write_setting(path, value)
    return found


def start_watch(job: dict[str, Any], pid: int) -> Program:
    """Follow the pages of a process from tier to tier (workloads/watch.c)."""
    spec = job["watch"]
    argv = [*spec["argv"], str(pid), str(spec["period_ms"]), spec["fast"]]
    log = Path(job["out"], "watch.log")
    watch = Program({"argv": argv, "cpus": job["system_cpus"]}, log, pipe=True)
    watch.wait_for("READY", 60)
    return watch


def stop_watch(watch: Program) -> dict[str, Any]:
    assert watch.process.stdin
    watch.process.stdin.close()
    watch.finish(60)
    return watch.result()


def prepare_damon(job: dict[str, Any]) -> None:
    """Everything of DAMON but the switch."""
    zones = Path("/proc/zoneinfo").read_text(encoding="ascii")
    try:
        writes = damon.plan(job, damon.memory(zones))
    except ValueError as error:
        raise JobError(str(error)) from error
    for path, value in writes:
        write_setting(path, value)


def run_job(job: dict[str, Any]) -> dict[str, Any]:
    out = Path(job["out"])
    os.sched_setaffinity(0, set(job["system_cpus"]))
    mount_debugfs()
    for path, value in job["leave"]:
        write_setting(path, value)
    for path in job["needs"]:
        if not Path(path).exists():
            raise JobError(f"this kernel has no {path}: the mode {job['mode']} is not in it")
    for path, value in job["settings"]:
        write_setting(path, value)
    result: dict[str, Any] = {"schema": SCHEMA, "environment": environment()}
    service = None
    if job["service"]:
        service = start_service(job, out)
    if job["load"]:
        result["load"] = load_service(job, out)
    workload = Program(job["workload"], out / "workload.log", pipe=True)
    handshake = job["workload"]["handshake"]
    if handshake:
        workload.wait_for("READY", job["timeout_s"])
    else:
        time.sleep(job["workload"]["settle_s"])
    target = service if job["placement"] and job["placement"]["process"] == "service" else workload
    assert target
    pid = target.process.pid
    recorder = Recorder(job["sample_s"], pid, job["counters"], job["threads"])
    try:
        result.update(measure(job, workload, target.process.pid, recorder))
        if target.process.poll() is None:
            result["residency_end"] = residency(target.process.pid)
        if not handshake and workload.process.poll() is None:
            workload.kill()
        else:
            workload.finish(120)
        result["workload"] = workload.result() if handshake else {"output": workload.lines[-40:]}
        result["measured"] = recorder.result()
        if service and service.process.poll() is not None:
            raise service.fail("died during the measurement")
    finally:
        for program in (workload, service):
            if program and program.process.poll() is None:
                program.kill()
    return result


def main() -> int:
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        result = run_job(job)
        code = 0
    except (JobError, OSError, subprocess.CalledProcessError) as error:
        result = {"schema": SCHEMA, "error": str(error)}
        say("error", text=str(error))
        code = 1
    text = json.dumps(result)
    Path(job["out"], "results.json").write_text(text, encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
