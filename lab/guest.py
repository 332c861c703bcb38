# SPDX-License-Identifier: GPL-2.0
"""Boot a kernel under virtme-ng and run one command in it.

The guest sees the host's root read-only (9p) with tmpfs overlays, and
``out_dir`` read-write at the same path.  It runs under TCG: /dev/kvm of the
host is never used, so that every machine measures the same thing.

A run is good only if the command's exit code came back, the kernel printed
no warning and the guest ended by itself.  Everything else is a LabError that
quotes the console.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lab import cache, instruments, tier
from lab.errors import LabError
from lab.topology import Topology

# What a healthy kernel never prints.  Matched against console lines.
WARNING = re.compile(
    r"WARNING: |BUG: |BUG at |Oops: |\bOOPS\b|Kernel panic|general protection fault"
    r"|INFO: task .* blocked for more than|INFO: rcu_\w+ (?:self-)?detected|INFO: possible"
    r"|INFO: trying to register|inconsistent lock state|suspicious RCU usage"
    r"|soft lockup|hard LOCKUP|Call Trace:|KASAN:|KCSAN:|UBSAN:|list_(?:add|del) corruption"
    r"|Bad page (?:state|map)|page dumped because|ODEBUG|refcount_t: |unreferenced object"
    r"|vmstat_refresh: \S+ -\d"
)
# Lines that match WARNING and are no fault of the kernel.
HARMLESS = re.compile(
    r"virtme-ng-init: |Speculative Return Stack Overflow|Spectre|RETBleed|MDS CPU bug|TAA"
    # what offlining of memory says of a page that it cannot move
    r"|page dumped because: (?:unmovable page|migration failure)"
)
# It says the same of a page that somebody else is just migrating, and has locked; of one that
# is not locked, a reference may have been lost.
PAGE_FLAGS = re.compile(r"\bflags: 0x[0-9a-f]+\((.*)\)")
NOT_ISOLATED = "page dumped because: isolation failed"
# The report of who has no memory comes with one stack.
NO_MEMORY = " invoked oom-killer: "


SLICE_NS = 100_000
PR_SET_TIMERSLACK = 29
SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}

# How often to boot if the emulator gets it wrong; see lost_by_emulator()
BOOTS = 6
# Before it comes to user space, a kernel says nothing for that long only if it hangs.
SILENT_S = 120.0
POLL_S = 2.0
KERNEL_HAS_SAID = ("Run /", "virtme-ng-init: ", "reboot: ", "Kernel panic", "Oops", "BUG: ")
# RCU begins so, and says so of an idle CPU on which a timer is long due
RCU_STALL = "rcu: INFO: "
TIMER_STOPPED = "rcu: \tPossible timer handling issue on cpu="
EMULATOR_STOPPED = re.compile(r"^qemu-system-\S+: .*Assertion .* failed", re.MULTILINE)


@dataclass
class GuestResult:
    """What came back from a guest."""

    exit_code: int
    console: str
    out_dir: Path
    seconds: float


def kernel_warnings(console: str) -> list[str]:
    """The console lines that say something is wrong with the kernel."""
    found: list[str] = []
    flags: list[str] = []
    no_memory = False
    for line in console.splitlines():
        no_memory |= NO_MEMORY in line
        if page := PAGE_FLAGS.search(line):
            flags = page[1].split("|")
        if not WARNING.search(line) or HARMLESS.search(line):
            continue
        if no_memory and line.endswith("Call Trace:"):
            no_memory = False
            continue
        if NOT_ISOLATED not in line or "locked" not in flags:
            found.append(line)
    return found


def _virtme() -> str:
    beside = Path(sys.executable).parent / "vng"
    found = str(beside) if beside.exists() else shutil.which("vng")
    if not found:
        raise LabError("virtme-ng (vng) is not installed", "run `./bootstrap.sh`")
    if not shutil.which("qemu-system-x86_64"):
        raise LabError("qemu-system-x86_64 is not installed", "run `./bootstrap.sh`")
    return found


def _tail(text: str, lines: int = 25) -> str:
    return "\n".join("    " + line for line in text.splitlines()[-lines:])


def command_line(
    kernel: Path,
    topology: Topology,
    script: str,
    *,
    out_dir: Path,
    plugins: Sequence[str] = (),
    append: str = "",
    single_thread_tcg: bool = False,
    icount: bool = False,
    disk: Path | None = None,
) -> list[str]:
    """The vng command that boots ``kernel`` and runs ``script``; ``disk`` is /dev/vda."""
    qemu = topology.qemu_args()
    if disk:
        qemu += ["-drive", f"file={disk},if=virtio,format=raw,cache=unsafe"]
    if icount:
        qemu += ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"]
    elif single_thread_tcg:
        qemu += ["-accel", "tcg,thread=single"]
    for plugin in plugins:
        qemu += ["-plugin", plugin]
    return [
        _virtme(),
        "--run",
        str(kernel),
        "--disable-kvm",
        "--disable-microvm",
        "--force-9p",
        "--verbose",
        "--cpus",
        str(topology.vcpus),
        "--memory",
        f"{topology.memory_mb}M",
        f"--rwdir={out_dir}",
        "--cwd",
        str(cache.PROJECT),
        "--user",
        "root",
        "--append",
        f"nokaslr {append}".strip(),
        "--qemu-opts=" + " ".join(shlex.quote(arg) for arg in qemu),
        "--exec",
        script,
    ]


def run(
    kernel: Path,
    topology: Topology,
    command: str | Sequence[str],
    *,
    out_dir: Path,
    timeout_s: int,
    plugins: Sequence[str] = (),
    append: str = "",
    single_thread_tcg: bool = False,
    icount: bool = False,
    disk_mb: int = 0,
    on_line: Callable[[str], None] | None = None,
    check_warnings: bool = True,
) -> GuestResult:
    """Boot, run ``command`` as root, return its exit code and the console.

    The command's own output goes to out_dir/output.log and, line by line, to
    ``on_line``; the kernel's log is kept in out_dir/console.log.  With ``disk_mb`` there
    is an empty disk, /dev/vda.  All of memory tiering is off when the command begins, but each
    part can be switched on alone (tier.BEGIN).
    """
    if not kernel.exists():
        raise LabError(f"kernel image {kernel} does not exist", "run `lab kernels`")
    out_dir = out_dir.resolve()
    out_dir.mkdir(parents=True, exist_ok=True)
    code_file = out_dir / "exit_code"
    code_file.unlink(missing_ok=True)
    text = command if isinstance(command, str) else shlex.join(command)
    # A script file keeps quoting simple.  Its output goes to a file of its own:
    # without udev in the guest, virtme-ng would mix it into the kernel's log.
    script = out_dir / "command.sh"
    output_file = out_dir / "output.log"
    output_file.write_text("", encoding="utf-8")
    script.write_text(
        f"#!/bin/sh\n{tier.BEGIN}(\n{text}\n) > {shlex.quote(str(output_file))} 2>&1\n"
        f"echo $? > {shlex.quote(str(code_file))}\n",
        encoding="utf-8",
    )
    # vCPUs that wait for each other.  The emulator has other threads as well, but with only
    # one for all vCPUs none of these runs while another one does.
    crowded = topology.vcpus >= (os.cpu_count() or 1) and not (single_thread_tcg or icount)
    if crowded:
        plugins = [*plugins, instruments.pause_plugin()]
    disk = out_dir / "disk" if disk_mb else None
    if disk:
        with disk.open("wb") as empty:
            empty.truncate(disk_mb << 20)
    argv = command_line(
        kernel,
        topology,
        f"/bin/sh {shlex.quote(str(script))}",
        out_dir=out_dir,
        plugins=plugins,
        append=append,
        single_thread_tcg=single_thread_tcg,
        icount=icount,
        disk=disk,
    )
    start = time.monotonic()
    for _ in range(BOOTS):
        with short_slices() if crowded else contextlib.nullcontext():
            console_text, timed_out = _boot(argv, output_file, timeout_s, on_line)
        lost = lost_by_emulator(console_text) or lost_in_boot(console_text)
        if not lost:
            break
        (out_dir / "console-lost.log").write_text(console_text, encoding="utf-8")
        print(f"{lost}; booting again", file=sys.stderr)
    seconds = time.monotonic() - start
    if disk:
        disk.unlink()
    output_text = output_file.read_text(encoding="utf-8", errors="replace")
    (out_dir / "console.log").write_text(console_text, encoding="utf-8")
    _judge(console_text, output_text, code_file, timed_out, timeout_s, check_warnings)
    return GuestResult(int(code_file.read_text()), console_text, out_dir, seconds)


def _set_slice(nanoseconds: int) -> bool:
    """The time slice of the calling thread, and of what it starts; 0 is the default."""
    number = SCHED_SETATTR.get(platform.machine())
    if number is None:
        return False
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    # struct sched_attr: size, policy (SCHED_OTHER), flags, nice, priority, runtime, ...
    attr = struct.pack("IIQiIQQQ", 48, 0, 0, nice, 0, nanoseconds, 0, 0)
    return bool(ctypes.CDLL(None).syscall(number, 0, ctypes.c_char_p(attr), 0) == 0)


@contextlib.contextmanager
def short_slices() -> Iterator[None]:
    """What is started inside runs in short time slices, where the host can (Linux 6.12).

    A vCPU that sends an interrupt and waits for all others waits until the host has run
    each of them.  With 16 vCPUs on two CPUs and slices of some milliseconds that takes tens
    of milliseconds for each TLB flush, with four some.  Counts do not depend on it, but how
    many pages are migrated in a run does.  Their timers have no slack either: the pauses of
    lab/plugin/pause.c are shorter than that.
    """
    libc = ctypes.CDLL(None)
    done = _set_slice(SLICE_NS)
    libc.prctl(PR_SET_TIMERSLACK, 1)
    try:
        yield
    finally:
        libc.prctl(PR_SET_TIMERSLACK, 0)
        if done:
            _set_slice(0)


def lost_by_emulator(console: str) -> str:
    """Why the emulator is to blame for the end of the guest; empty if it is not.

    It may have stopped by an assertion of its own; seen once in some thousand boots, while the
    guest set up its devices.

    Or the guest died of a breakpoint of its own code patching.  While the kernel patches its
    code (static keys, alternatives) it puts a breakpoint there for a moment.  QEMU's TCG can
    let a vCPU run into it after the patching has ended, when nobody expects it any more.  Seen
    on the unmodified kernel while it boots, once in some fifty boots with two guests on two
    host CPUs.  Nothing else puts breakpoints into these kernels (no kprobes, no kgdb).
    """
    if "Oops: int3" in console:
        return "the emulated CPUs raced over patched code"
    if EMULATOR_STOPPED.search(console):
        return "the emulator has stopped by an assertion"
    return ""


def lost_in_boot(console: str) -> str:
    """Why a guest that did not come to user space is to be booted again; empty if it is not.

    It has ended or hangs, and the kernel has not complained.  QEMU can have a segmentation fault
    while the kernel looks for devices, and virtme-ng does not tell.  A kernel that cannot go on
    says so, but for a triple fault: that looks the same, is told as this, and is an error if each
    of BOOTS boots ends so.

    A boot can hang, of the unmodified kernel as well; of 165 that looked for it, none did.  RCU
    may tell why: a CPU has got no timer interrupt since its timer was changed from periodic to
    one-shot, but interrupts of the other CPU.  The kernel believes that such an interrupt is still
    to come, and never sets the timer again.  This complaint of RCU is the only one that is allowed,
    and nothing may come before it.
    """
    if "Linux version" not in console or any(word in console for word in KERNEL_HAS_SAID):
        return ""
    stalled = TIMER_STOPPED in console
    if kernel_warnings(console.partition(RCU_STALL)[0] if stalled else console):
        return ""
    if stalled:
        return "a CPU's timer has stopped while the kernel booted"
    return "the guest has not come to user space"


def _boot(
    argv: list[str], output_file: Path, timeout_s: int, on_line: Callable[[str], None] | None
) -> tuple[str, bool]:
    """One boot: the console, and whether it had to be killed."""
    console: list[str] = []
    ended = threading.Event()
    env = dict(os.environ, PATH=f"{Path(argv[0]).parent}:/usr/sbin:/sbin:{os.environ['PATH']}")
    with subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=env,
        start_new_session=True,
    ) as process:
        assert process.stderr
        readers = [
            threading.Thread(target=_drain, args=(process.stderr, console)),
            threading.Thread(target=_follow, args=(output_file, on_line, ended)),
        ]
        for reader in readers:
            reader.start()
        try:
            timed_out = _wait(process, timeout_s, console)
        finally:
            _kill(process)
            ended.set()
        for reader in readers:
            reader.join(timeout=10)
    return "\n".join(console), timed_out


def _drain(pipe: IO[str], lines: list[str]) -> None:
    for line in pipe:
        lines.append(line.rstrip("\r\n"))


def _wait(process: subprocess.Popen[str], timeout_s: float, lines: list[str]) -> bool:
    """Wait for the end, or for a boot that hangs: false; true at the limit, and the guest runs."""
    limit = time.monotonic() + timeout_s
    heard, silent_since = 0, time.monotonic()
    while (now := time.monotonic()) < limit:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=min(POLL_S, limit - now))
            return False
        if heard != len(lines):
            heard, silent_since = len(lines), time.monotonic()
        silent_s = time.monotonic() - silent_since
        text = "\n".join(lines)
        if (silent_s > SILENT_S or TIMER_STOPPED in text) and lost_in_boot(text):
            return False
    return True


def _follow(path: Path, on_line: Callable[[str], None] | None, ended: threading.Event) -> None:
    """Pass the lines of a growing file on as they come, and the rest at the end."""
    if on_line is None:
        return
    with open(path, encoding="utf-8", errors="replace") as handle:
        part = ""
        while True:
            last = ended.is_set()
            part += handle.read()
            *lines, part = part.split("\n")
            for line in lines:
                on_line(line)
            if last:
                return
            ended.wait(0.3)


def _kill(process: subprocess.Popen[str]) -> None:
    """End the whole process group: vng starts QEMU through wrappers."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _judge(
    console: str,
    output: str,
    code_file: Path,
    timed_out: bool,
    timeout_s: int,
    check_warnings: bool,
) -> None:
    log = code_file.parent / "console.log"
    bad = kernel_warnings(console)
    if bad and check_warnings:
        lines = console.splitlines()
        first = lines.index(bad[0])
        quote = "\n".join("    " + line for line in lines[max(0, first - 2) : first + 25])
        raise LabError(
            f"the guest's kernel complained: {bad[0].strip()}\n{quote}", f"the whole log is {log}"
        )
    if timed_out:
        raise LabError(
            f"the guest did not end within {timeout_s} s and was killed; its last lines:\n"
            + _tail(console + "\n" + output),
            f"the whole log is {log}",
        )
    if not code_file.exists() or not code_file.read_text().strip():
        if "virtme-ng-init: " not in console and "Run /" not in console:
            raise LabError(
                "the kernel did not boot to user space; its last lines:\n" + _tail(console),
                f"the whole log is {log}",
            )
        raise LabError(
            "the guest was lost before its command ended; its last lines:\n"
            + _tail(console + "\n" + output),
            f"the whole log is {log}",
        )
