# SPDX-License-Identifier: GPL-2.0
"""The instruments against known answers: what is counted is known by construction."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lab import cache, guest, instruments, programs
from lab.build import KernelImage
from lab.errors import LabError
from lab.instruments import AccessSample
from lab.topology import Topology

FAST, SLOW = 0, 1
# Other user code may run on the CPU for a moment (the guest's init, libc of the
# program itself): this many counts too many are tolerated, none too few.
STRAY = 2000
# Kinds of work for known answers: one call inside of another.
CALLS = {"syscall": ("do_syscall_64",), "getppid": ("__x64_sys_getppid",)}


@pytest.fixture(scope="module")
def program() -> dict[str, Path]:
    return programs.build_programs(cache.sub("programs"))


@pytest.fixture(scope="module")
def plugins() -> dict[str, Path]:
    return instruments.build_plugins(cache.sub("programs"))


def boot(kernel: KernelImage, machine: Topology, script: str, out: Path, *plugin: str) -> None:
    result = guest.run(
        kernel.image, machine, f"set -e\n{script}", out_dir=out, timeout_s=180, plugins=plugin
    )
    assert result.exit_code == 0, (out / "console.log").read_text()


def about(counted: int, expected: int) -> bool:
    return expected <= counted <= expected + STRAY


def by_node(samples: list[AccessSample]) -> tuple[int, int]:
    return samples[-1].on_node(FAST), samples[-1].on_node(SLOW)


def test_access_known_answers(
    base_kernel: KernelImage,
    two_tier: Topology,
    plugins: dict[str, Path],
    program: dict[str, Path],
    out_dir: Path,
) -> None:
    """N bytes K times are N * K accesses, on their node; a cache of L lines keeps L lines."""
    out_dir.mkdir()
    every, missed = out_dir / "every.json", out_dir / "missed.json"
    # The same instrument a second time: QEMU loads a file only once, so copy it.
    twin = {"access": out_dir / "twin.so"}
    shutil.copy(plugins["access"], twin["access"])
    touch = program["ka_touch"]
    # node, count, stride, times, phases; expected in all; expected to miss 4096 lines
    known = [
        ((SLOW, 1000, 4096, 1000, 1), 1_000_000, 1_000_000),
        ((SLOW, 500, 4096, 1000, 1), 500_000, 500_000),
        ((FAST, 1000, 4096, 500, 1), 500_000, 500_000),
        ((SLOW, 1024, 64, 500, 1), 512_000, 1024),
        ((FAST, 4096, 64, 100, 1), 409_600, 4096),
        # 64 pages fit the 4096 lines. The 65th shares the slot of the first: two
        # that always miss, 63 that miss once.
        ((FAST, 64, 4096, 1000, 1), 64_000, 64),
        ((FAST, 65, 4096, 1000, 1), 65_000, 63 + 2 * 1000),
        ((SLOW, 1000, 4096, 100, 3), 300_000, 300_000),
        ((SLOW, 0, 0, 0, 1), 0, 0),
    ]
    script = [f"{program['labmark']} calibrate"]
    script += [" ".join(map(str, (touch, *args))) for args, _, _ in known]
    boot(
        base_kernel,
        two_tier,
        "\n".join(script),
        out_dir,
        instruments.access_plugin(two_tier, every, plugins=plugins),
        instruments.access_plugin(two_tier, missed, plugins=twin, lines=4096),
    )
    for region, (args, accesses, misses) in enumerate(known, start=1):
        for path, expected in ((every, accesses), (missed, misses)):
            counted = by_node(instruments.read_access(path, region))
            there, elsewhere = counted[args[0]], counted[1 - args[0]]
            assert about(there, expected), (args, path.name, counted)
            assert about(elsewhere, 0), (args, path.name, counted)

    # Three phases of the same work: three equal intervals, told apart by phase.
    series = instruments.hit_ratio_series(instruments.read_access(every, 8), {FAST})
    per_phase = [sum(s.accesses for s in series if s.phase == phase) for phase in range(3)]
    assert all(about(n, 100_000) for n in per_phase), per_phase
    assert all(s.ratio < 0.05 for s in series if s.accesses > 50_000)

    empty = instruments.read_access(every, 9)
    assert empty[-1].total < 100


# Moves all its memory up, down and up again, and then down and up between two looks.
WATCHED = """
import mmap, os, subprocess, sys, time
from lab.agent import migrate

memory = mmap.mmap(-1, 16 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_NOHUGEPAGE)
for i in range(0, len(memory), mmap.PAGESIZE):
    memory[i] = 1
pid = os.getpid()
migrate(pid, [0], 1)
watch = subprocess.Popen([sys.argv[1], str(pid), "4000", "0"], text=True,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert watch.stdout.readline() == "READY\\n"
for source, target in ((1, 0), (0, 1), (1, 0)):
    migrate(pid, [source], target)
    watch.stdin.write("look\\n")
    watch.stdin.flush()
    time.sleep(1)
migrate(pid, [0], 1)
migrate(pid, [1], 0)
print(watch.communicate()[0])
"""


def test_watch_known_answers(
    base_kernel: KernelImage, two_tier: Topology, program: dict[str, Path], out_dir: Path
) -> None:
    out_dir.mkdir()
    script = out_dir / "watched.py"
    script.write_text(WATCHED, encoding="utf-8")
    command = ["/usr/bin/env", f"PYTHONPATH={cache.PROJECT}", "/usr/bin/python3", script]
    result = guest.run(
        base_kernel.image,
        two_tier,
        [str(word) for word in (*command, program["watch"])],
        out_dir=out_dir,
        timeout_s=120,
    )
    output = (out_dir / "output.log").read_text(encoding="utf-8")
    assert result.exit_code == 0, output
    line = next(line for line in output.splitlines() if line.startswith("RESULT "))
    seen = json.loads(line[7:])
    pages = seen["pages"]
    assert pages >= 4096, seen
    # Those that the moving itself holds stay where they are.
    for what, times in (("promotions", 3), ("promoted_again", 2), ("demotions", 2)):
        assert abs(seen[what] - times * pages) <= 0.01 * pages, seen


def test_copies_known_answers(
    base_kernel: KernelImage,
    two_tier: Topology,
    plugins: dict[str, Path],
    program: dict[str, Path],
    out_dir: Path,
) -> None:
    """What read(2) copies is counted, on its node, and user code is not."""
    out_dir.mkdir()
    out = out_dir / "copies.json"
    known = [(SLOW, 64, 20), (FAST, 64, 10), (SLOW, 0, 0)]
    script = [f"set -e; {program['labmark']} calibrate"]
    script += [" ".join(map(str, (program["ka_read"], *args))) for args in known]
    # Reading memory is not reading a file.
    script.append(f"{program['ka_touch']} {SLOW} 1000 4096 1000")
    result = guest.run(
        base_kernel.image,
        two_tier,
        "\n".join(script),
        out_dir=out_dir,
        timeout_s=180,
        append="clearcpuid=erms,fsrm",
        plugins=[
            instruments.access_plugin(
                two_tier,
                out,
                plugins=plugins,
                vcpus=[0],
                copies=instruments.copy_routine(base_kernel.system_map),
            )
        ],
    )
    assert result.exit_code == 0, result.console
    for region, (node, pages, times) in enumerate([*known, (SLOW, 0, 0)], start=1):
        counted = by_node(instruments.read_access(out, region))
        assert about(counted[node], pages * times * 512), (region, counted)
        assert about(counted[1 - node], 0), (region, counted)


def test_insn_known_answers(
    base_kernel: KernelImage,
    two_tier: Topology,
    plugins: dict[str, Path],
    program: dict[str, Path],
    out_dir: Path,
) -> None:
    """Loops of known length, known locked operations, a known number of system calls."""
    out_dir.mkdir()
    out = out_dir / "insn.json"
    runs = [
        ("plain", 1_000_000),
        ("plain", 2_000_000),
        ("locked", 100_000),
        ("rep", 10_000),
        ("getppid", 20_000),
        ("getppid", 40_000),
        ("phases", 10_000),
        ("empty", 1),
    ]
    script = [f"{program['labmark']} calibrate"]
    for what, times in runs:
        script += [f"{program['ka_insn']} {what} {times}", f"cp {out} {out_dir}/{what}.{times}"]
    access = out_dir / "access.json"
    boot(
        base_kernel,
        two_tier,
        "\n".join(script),
        out_dir,
        instruments.insn_plugin(
            base_kernel.system_map, out, plugins=plugins, kinds={**instruments.all_kinds(), **CALLS}
        ),
        instruments.access_plugin(two_tier, access, plugins=plugins, vcpus=[1]),
    )
    result = {run: instruments.read_insn(out_dir / f"{run[0]}.{run[1]}") for run in runs}

    def user(run: tuple[str, int]) -> tuple[int, int, int]:
        counts = result[run].total.vcpus[0]
        return counts.user, counts.user_locked, counts.user_rep

    def getppid(table: instruments.InsnTable) -> int:
        counts = table.symbols["__x64_sys_getppid"]
        assert counts.insn[1] == 0, "the program was pinned to CPU 0"
        return counts.insn[0]

    for times in (1_000_000, 2_000_000):
        insns, locked, rep = user(("plain", times))
        assert about(insns, 4 * times)
        assert locked < 50
        assert rep < STRAY
    insns, locked, _ = user(("locked", 100_000))
    assert about(insns, 800_000)
    assert 400_000 <= locked <= 400_000 + 50
    insns, _, rep = user(("rep", 10_000))
    assert about(insns, 40_000)
    # QEMU makes one more iteration of it to find that the count is zero.
    assert 640_000 <= rep <= 650_000 + STRAY
    insns, locked, _ = user(("empty", 1))
    assert insns < 100
    assert locked == 0

    # A function without a branch that nobody else calls: exact, and proportional.
    length, rest = divmod(getppid(result["getppid", 20_000].total), 20_000)
    assert length > 2
    assert rest == 0
    assert getppid(result["getppid", 40_000].total) == 40_000 * length
    phases = result["phases", 10_000]
    assert getppid(phases.phases[1]) == 10_000 * length
    assert getppid(phases.phases[2]) == 20_000 * length
    assert getppid(phases.total) == 30_000 * length
    total = phases.total
    for cpu in range(2):
        assert total.vcpus[cpu].kernel == sum(s.insn[cpu] for s in total.symbols.values())
        assert total.vcpus[cpu].locked == sum(s.locked[cpu] for s in total.symbols.values())

    # Inside of the call: itself and what it calls, from start to end.
    by_kind = {run: table.kinds["getppid"].process[0] for run, table in result.items()}
    inside, rest = divmod(by_kind["getppid", 20_000], 20_000)
    assert inside > length
    assert rest < STRAY  # an interrupt's entry
    assert by_kind["getppid", 40_000] // 40_000 == inside
    assert by_kind["empty", 1] == 0
    # What is around it is not in it, and the inner kind ends there.
    assert result["getppid", 20_000].kinds["syscall"].process[0] > 20_000 * inside
    for table in result.values():
        assert table.unmatched < 0.0001
        for cpu, counts in enumerate(table.total.vcpus):
            kinds = [kind.process[cpu] + kind.thread[cpu] for kind in table.kinds.values()]
            assert abs(sum(kinds) + table.apart[cpu] - counts.kernel) <= (0, STRAY)[cpu]
            assert abs(counts.kernel - table.apart[cpu] - counts.kernel_busy) <= (0, STRAY)[cpu]
    # vCPU 0 runs a process all the time, vCPU 1 idles, which is a kernel thread's work.
    busy = result["getppid", 40_000].kinds
    threads, processes = (
        sum(getattr(kind, who)[0] for kind in busy.values()) for who in ("thread", "process")
    )
    assert threads < 0.01 * processes  # none, unless a worker woke up
    assert any(sum(kind.thread[1] for kind in table.kinds.values()) for table in result.values())

    # All of the above was on vCPU 0, which the other instrument was not to count.
    for region in range(1, len(runs) + 1):
        samples = instruments.read_access(access, region)
        assert sum(samples[-1].nodes[0]) == 0


OWN_PAGES = 12


def test_tlb_known_answers(
    base_kernel: KernelImage,
    two_tier: Topology,
    plugins: dict[str, Path],
    program: dict[str, Path],
    out_dir: Path,
) -> None:
    """Pages that fit the model are filled once, more always; each mprotect() flushes."""
    out_dir.mkdir()
    entries = 256
    # Pages side by side use all sets alike: five of four ways is too many everywhere.
    runs = [
        ("ka_touch", f"{FAST} 128 4096 1000", 128_000, 128),
        ("ka_touch", f"{FAST} 320 4096 200", 64_000, 64_000),
        # Most fill in 10 pages of their own, some 12, and one was seen with 14.
        *[("ka_insn", "flush 2000", 2000 * 64, 2000 * 64)] * 3,
        ("ka_insn", "empty 1", 0, 0),
    ]
    out = out_dir / "tlb.json"
    script = [
        f"{program[name]} {args}\ncp {out} {out_dir}/{number}"
        for number, (name, args, _, _) in enumerate(runs)
    ]
    plugin = instruments.tlb_plugin(out, plugins=plugins, entries=entries)
    boot(base_kernel, two_tier, "\n".join(script), out_dir, plugin)
    found = [
        instruments.read_tlb(out_dir / str(number), base_kernel.system_map)
        for number in range(len(runs))
    ]
    beyond: dict[tuple[str, str], list[int]] = {}
    for tlb, (name, args, accesses, fills) in zip(found, runs, strict=True):
        switches = tlb.flushed([0], switches=True)
        assert tlb.entries == entries
        if name == "ka_touch":
            assert about(tlb.accesses[0], accesses)
        assert fills <= tlb.fills[0] <= tlb.accesses[0]
        # A switch to another process in between empties the model.
        more = tlb.fills[0] - fills - entries * switches
        beyond.setdefault((name, args), []).append(more)
    for (_, args), more_of_each in beyond.items():
        # After each mprotect() the program's own code, data and stack are filled in again.
        own = OWN_PAGES * 2000 if args.startswith("flush") else 0
        assert min(more_of_each) <= own + STRAY
    flushing = found[2]
    # The mprotect() that gives write permission back flushes with some kernels, too.
    flushed = flushing.flushed([0], switches=False)
    assert any(known <= flushed <= known + 50 for known in (2000, 4000)), flushed
    assert {flush.what for flush in flushing.flushes} <= {"cr3", "cr4", "invlpg", "invpcid"}
    assert found[-1].flushed([0], switches=False) < 10


def test_insn_repeats(
    base_kernel: KernelImage,
    two_tier: Topology,
    plugins: dict[str, Path],
    program: dict[str, Path],
    out_dir: Path,
) -> None:
    """The same work in two guests: kernel instructions agree to 0.5 %.

    Interrupts come by wall time, so a busy host adds instructions, and never
    takes any away: the least of five runs is compared.
    """
    least: list[int] = []
    for name in ("one", "two"):
        out = out_dir / name / "insn.json"
        out.parent.mkdir(parents=True)
        script = (
            f"for i in 1 2 3 4 5; do {program['ka_insn']} getppid 20000; cp {out} {out}.$i; done"
        )
        plugin = instruments.insn_plugin(base_kernel.system_map, out, plugins=plugins)
        boot(base_kernel, two_tier, script, out.parent, plugin)
        runs = [instruments.read_insn(out.with_name(f"{out.name}.{i}")) for i in range(1, 6)]
        least.append(min(run.total.vcpus[0].kernel for run in runs))
        # vCPU 1 has nothing to do: part of what it executes is idling. vCPU 0 never idles.
        busy = [run.total.vcpus[0] for run in runs]
        idle = [run.total.vcpus[1] for run in runs]
        assert all(vcpu.kernel_busy > 0.999 * vcpu.kernel for vcpu in busy)
        assert any(vcpu.kernel_busy < vcpu.kernel for vcpu in idle)
    one, two = least
    assert one > 1_000_000
    assert abs(one - two) <= 0.005 * one, (one, two)


def test_a_wrong_map_is_noticed(
    base_kernel: KernelImage,
    two_tier: Topology,
    plugins: dict[str, Path],
    program: dict[str, Path],
    out_dir: Path,
) -> None:
    """Other node sizes, and other kernel addresses, than those of the machine."""
    out_dir.mkdir()
    access, insn, shifted = out_dir / "a.json", out_dir / "i.json", out_dir / "System.map"
    text = base_kernel.system_map.read_text()
    lines = [line.split(" ", 1) for line in text.splitlines()]
    shifted.write_text(
        "".join(
            f"{int(addr, 16) + (0x200000 if addr.startswith('ffff') else 0):016x} {rest}\n"
            for addr, rest in lines
        )
    )
    sizes = {"fast_mb": two_tier.nodes[SLOW].size_mb, "slow_mb": two_tier.nodes[FAST].size_mb}
    boot(
        base_kernel,
        two_tier,
        f"{program['labmark']} calibrate\n{program['ka_touch']} {SLOW} 100 4096 100",
        out_dir,
        instruments.access_plugin(two_tier.resized(**sizes), access, plugins=plugins),
        instruments.insn_plugin(shifted, insn, plugins=plugins),
    )
    with pytest.raises(LabError, match="on the wrong node"):
        instruments.read_access(access)
    with pytest.raises(LabError, match="entry_SYSCALL_64 is not where"):
        instruments.read_insn(insn)


def test_functions_that_begin_a_kind_exist(tiershift_kernel: KernelImage) -> None:
    """A function that was renamed or inlined would leave its work in another kind."""
    text = tiershift_kernel.system_map.read_text()
    names = {line.split()[2] for line in text.splitlines()}
    wanted = {name for functions in instruments.all_kinds().values() for name in functions}
    assert wanted - names == set()
