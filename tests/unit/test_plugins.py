# SPDX-License-Identifier: GPL-2.0
"""The instruments outside of a guest: arguments, decoders and what is made of their output."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from lab import cache, instruments, metrics, programs, scenario, topology
from lab.errors import LabError


@pytest.fixture(scope="module")
def plugins() -> dict[str, Path]:
    return instruments.build_plugins(cache.sub("programs"))


def test_copy_routine_is_found_in_the_symbols(tmp_path: Path) -> None:
    symbols = tmp_path / "System.map"
    rows = ("ffffffff81000100 T rep_movs_alternative", "ffffffff81000000 T a")
    symbols.write_text("\n".join([*rows, "ffffffff81000160 t b", "ffffffff81000170 t c"]))
    assert instruments.copy_routine(symbols) == (0xFFFFFFFF81000100, 0xFFFFFFFF81000160)
    symbols.write_text(rows[1])
    with pytest.raises(LabError, match="rep_movs_alternative"):
        instruments.copy_routine(symbols)


def test_uncalibrated_is_invalid(tmp_path: Path) -> None:
    """What the plugin calls invalid is not read by accident."""
    line = (
        '{"t_ms":0,"event":"final","region":1,"phase":0,"final":true,"valid":false,'
        '"why":"node 1 was not calibrated","vcpu":[{"node0":1,"node1":2,"other":3}]}\n'
    )
    path = tmp_path / "access.json"
    path.write_text(line + '{"t_ms":1,"ev')
    with pytest.raises(LabError, match="node 1 was not calibrated"):
        instruments.read_access(path)
    assert instruments.read_access(path, check=False)[0].on_node(1) == 2
    with pytest.raises(LabError, match="no region 2"):
        instruments.read_access(path, 2, check=False)
    with pytest.raises(LabError, match="wrote nothing"):
        instruments.read_access(tmp_path / "none")
    with pytest.raises(LabError, match="wrote no"):
        instruments.read_insn(tmp_path / "none")


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("access", "nodes=512:768,out=/dev/null,bogus=1", 'bad argument "bogus=1"'),
        ("access", "nodes=512:768,out=/dev/null,lines=1000", 'bad argument "lines=1000"'),
        ("access", "nodes=512:,out=/dev/null", 'bad argument "nodes=512:"'),
        ("access", "out=/dev/null", "needs nodes="),
        ("access", "nodes=512,out=/dev/null,copies=ff:ffff", 'bad argument "copies=ff:ffff"'),
        ("insn", "symbols=/dev/null,out=/dev/null", "no entry_SYSCALL_64"),
        ("insn", "out=/dev/null", "needs symbols="),
        ("tlb", "entries=1024", "needs out="),
        ("tlb", "out=/dev/null,entries=1000", 'bad argument "entries=1000"'),
        ("tlb", "out=/dev/null,entries=4", 'bad argument "entries=4"'),
        ("holds", "out=/dev/null,take=0x10-0x20", "needs out= and all lists"),
        ("holds", "out=/dev/null,take=0x20-0x10", 'bad argument "take=0x20-0x10"'),
        ("holds", "out=/dev/null,take=0x10-0x20:", 'bad argument "take=0x10-0x20:"'),
    ],
)
def test_bad_arguments(name: str, args: str, message: str, plugins: dict[str, Path]) -> None:
    """A mistake in the arguments keeps QEMU from starting, and says why."""
    done = subprocess.run(
        ["qemu-system-x86_64", "-display", "none", "-plugin", f"{plugins[name]},{args}"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode != 0
    assert message in done.stderr


# Includes a plugin's source to get at what is static there. QEMU's functions
# are never reached, so they may stay undefined.
UNIT = """
#include "{plugin}"

static bool store;

bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info)
{{
	(void)info;
	return store;
}}
{qemu}
int main(void)
{{
	qemu_info_t info = {{ .target_name = "x86_64", .system_emulation = true }};

{body}
	return 0;
}}
"""
API_CHECK = """
	info.version.cur = LAB_PLUGIN_API + 1;
	return qemu_plugin_install(1, &info, 0, NULL) == -1 ? 0 : 1;
"""
# What the plugin makes of calls and returns: (action, place or kind), expected kind after it.
CALLS_CHECK = """
	struct { char what; uint64_t arg; unsigned int kind; } steps[] = {
		{ 'c', 0x100, 0 }, { 'e', 3, 3 },	/* f() begins kind 3 */
		{ 'c', 0xf0, 3 }, { 'c', 0xe0, 3 }, { 'r', 0xe0, 3 },
		{ 'e', 2, 2 },		/* the callee at 0xf0 jumps to one of kind 2 */
		{ 'r', 0xf0, 3 },
		{ 'i', 0x80, 3 },	/* an interrupt's frame is no call */
		{ 's', 0x9000, 0 },	/* another task runs ... */
		{ 'c', 0x500, 0 }, { 'e', 1, 1 },
		{ 's', 0x8000, 3 },	/* ... and this one goes on where it was */
		{ 'r', 0x100, 0 },
		{ 's', 0x9000, 1 }, { 'u', 0, 0 },	/* user code: no call is open */
		{ 'r', 0x700, 0 },	/* the only return without a call */
	};
	size_t i;

	(void)info;
	calls_init(1);
	on_switch_from(0, 0, 0x8000, NULL);
	for (i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		store = steps[i].what == 'c' || steps[i].what == 'i';
		if (steps[i].what == 'c' || steps[i].what == 'r')
			on_call_or_return(0, NULL);
		switch (steps[i].what) {
		case 'c': case 'i': on_call(0, 0, steps[i].arg, NULL); break;
		case 'r': on_return(0, 0, steps[i].arg, NULL); break;
		case 's': on_switch_to(0, 0, steps[i].arg, NULL); break;
		case 'u': task_in_user_code(runners[0].task); break;
		case 'e': on_enter(0, (void *)(ENTER_KIND + steps[i].arg)); break;
		}
		if (runners[0].task->kind != steps[i].kind)
			return fprintf(stderr, "step %zu\\n", i), 1;
	}
	if (runners[0].unmatched != 1 || runners[0].returns != 4)
		return fprintf(stderr, "unmatched\\n"), 1;
	on_enter(0, (void *)ENTER_THREAD);
	if (!runners[0].task->thread)
		return fprintf(stderr, "thread\\n"), 1;
	on_enter(0, (void *)ENTER_NEW_TASK);
	if (runners[0].task->thread)
		return fprintf(stderr, "new task\\n"), 1;
"""
# Two vCPUs on two sockets, four nodes of 1, 2, 4 and 8 MiB. An access is to the start of a
# node; the address stands for itself, since the map is what this test is not about.
NODES_CHECK = """
	static const struct { unsigned int cpu; int node; unsigned int times; } steps[] = {
		{ 0, 0, 5 }, { 0, 1, 3 }, { 0, 2, 2 }, { 0, 3, 1 }, { 2, 1, 7 },
		{ 2, 3, 4 }, { 1, 0, 9 },
	};
	(void)info;
	nr_vcpus = 4;
	vcpu_mask = 5;
	out = stdout;
	if (!parse_nodes("1:2:4:8"))
		return 1;
	on_marker(0, (void *)LAB_CODE_START);
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
		for (unsigned int n = 0; n < steps[i].times; n++)
			on_access(steps[i].cpu, 0, nodes[steps[i].node].start + 4096, NULL);
	on_marker(0, (void *)LAB_CODE_STOP);
"""
# What QEMU would answer: an address is that of RAM.
HWADDR = """
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t vaddr)
{
	(void)info;
	return (struct qemu_plugin_hwaddr *)vaddr;
}
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *haddr)
{
	return !haddr;
}
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *haddr)
{
	return (uint64_t)(uintptr_t)haddr;
}
"""
# Bytes, expected locked, expected rep-prefixed string instruction.
ENCODINGS = [
    ("f0 ff 07", 1, 0),  # lock incl (%rdi)
    ("f0 48 0f c1 07", 1, 0),  # lock xadd %rax,(%rdi)
    ("3e f0 83 0c 24 00", 1, 0),  # ds lock orl $0,(%rsp)
    ("65 48 87 05 00 00 00 00", 1, 0),  # xchg %rax,%gs:0(%rip)
    ("66 87 07", 1, 0),  # xchg %ax,(%rdi)
    ("44 86 07", 1, 0),  # xchg %r8b,(%rdi)
    ("48 87 c2", 0, 0),  # xchg %rax,%rdx
    ("87 c9", 0, 0),  # xchg %ecx,%ecx
    ("48 87", 0, 0),  # cut short: never read beyond the end
    ("f3 48 a5", 0, 1),  # rep movsq
    ("f3 aa", 0, 1),  # rep stosb
    ("f2 ae", 0, 1),  # repne scasb
    ("67 f3 66 ab", 0, 1),  # rep stosw with 32-bit addresses
    ("48 a5", 0, 0),  # movsq
    ("f3 90", 0, 0),  # pause
    ("f3 c3", 0, 0),  # rep ret
    ("f3 0f b8 c0", 0, 0),  # popcnt
    ("0f b1 17", 0, 0),  # cmpxchg without lock
    ("89 f0", 0, 0),  # f0 as an operand
]


def unit(
    plugin: str, body: str, tmp_path: Path, qemu: str = ""
) -> subprocess.CompletedProcess[str]:
    source, binary = tmp_path / "unit.c", tmp_path / "unit"
    source.write_text(UNIT.format(plugin=plugin, body=body, qemu=qemu))
    flags = ["-std=gnu11", "-static", "-Wl,--unresolved-symbols=ignore-all"]
    include = f"-I{instruments.PLUGINS}"
    subprocess.run([programs.COMPILER, *flags, include, source, "-o", binary], check=True)
    return subprocess.run([binary], capture_output=True, text=True, check=False, timeout=30)


@pytest.mark.parametrize("plugin", ["access.c", "insn.c", "tlb.c", "holds.c"])
def test_other_qemu_is_refused(plugin: str, tmp_path: Path) -> None:
    """An unknown version of the plugin interface is refused with a reason."""
    done = unit(plugin, API_CHECK, tmp_path)
    assert done.returncode == 0
    assert "has plugin interface 2, built for 1" in done.stderr


FLUSHES = [
    ("0f 22 d8", "CR3"),  # mov %rax,%cr3
    ("41 0f 22 d8", "CR3"),  # mov %r8,%cr3
    ("0f 22 e1", "CR4"),  # mov %rcx,%cr4
    ("0f 22 c0", "NR_WHAT"),  # mov %rax,%cr0
    ("44 0f 22 c0", "NR_WHAT"),  # mov %rax,%cr8
    ("44 0f 22 d8", "NR_WHAT"),  # %cr11, if there were one
    ("0f 20 d8", "NR_WHAT"),  # mov %cr3,%rax
    ("0f 01 3b", "INVLPG"),  # invlpg (%rbx)
    ("41 0f 01 3c 24", "INVLPG"),  # invlpg (%r12)
    ("65 0f 01 7d 08", "INVLPG"),  # invlpg %gs:8(%rbp)
    ("0f 01 f8", "NR_WHAT"),  # swapgs
    ("0f 01 18", "NR_WHAT"),  # lidt (%rax)
    ("66 0f 38 82 04 24", "INVPCID"),
    ("66 0f 38 80 04 24", "NR_WHAT"),  # invept
    ("0f 22", "NR_WHAT"),  # cut short: never read beyond the end
    ("90", "NR_WHAT"),
]
# A set of four ways of a model of eight entries: even pages are of one, odd ones of the other.
MODEL_CHECK = """
	static const struct { uint64_t page; int filled; } steps[] = {
		{ 0, 1 }, { 2, 1 }, { 4, 1 }, { 6, 1 }, { 0, 0 }, { 1, 1 }, { 2, 0 },
		{ 8, 1 },		/* replaces 4, which was used longest ago */
		{ 6, 0 }, { 0, 0 }, { 4, 1 }, { 2, 1 },
	};
	static struct entry entries[8];
	uint64_t before;
	size_t i;

	(void)info;
	nr_vcpus = 1;
	nr_entries = 8;
	vcpus[0].entries = entries;
	vcpus[0].flushes = 1;
	on_access(0, 0, 0, NULL);	/* before START nothing counts */
	poke(running, ++region);
	for (i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		before = vcpus[0].fills;
		on_access(0, 0, steps[i].page << PAGE_BITS | 0xff8, NULL);
		if (vcpus[0].fills - before != (uint64_t)steps[i].filled)
			return fprintf(stderr, "step %zu\\n", i), 1;
	}
	if (site_of(0x1000, INVLPG) || site_of(0x2000, CR3) != 1 || site_of(0x1000, INVLPG))
		return fprintf(stderr, "sites\\n"), 1;
	for (i = 0; i < 3; i++) {
		on_flush(0, (void *)0);		/* one page, which cannot be seen */
		before = vcpus[0].fills;
		on_access(0, 0, 2 << PAGE_BITS, NULL);
		if (vcpus[0].fills != before)
			return fprintf(stderr, "invlpg\\n"), 1;
		on_flush(0, (void *)1);
		on_access(0, 0, 2 << PAGE_BITS, NULL);
		if (vcpus[0].fills != before + 1)
			return fprintf(stderr, "flush\\n"), 1;
	}
	if (vcpus[0].count[0] != 3 || vcpus[0].count[1] != 3 || vcpus[0].accesses != 12 + 6)
		return fprintf(stderr, "counts\\n"), 1;
	poke(running, ++region);	/* START again: from zero */
	on_flush(0, (void *)1);
	if (vcpus[0].count[0] || vcpus[0].count[1] != 1 || vcpus[0].fills)
		return fprintf(stderr, "region\\n"), 1;
"""


def test_decoder_of_flushes(tmp_path: Path) -> None:
    """What flushes the TLB is told from look-alikes."""
    body = "\t(void)info;\n"
    for encoding, name in FLUSHES:
        code = encoding.split()
        array = ", ".join(f"0x{byte}" for byte in code)
        body += (
            f"\tif (decode((const uint8_t[]){{ {array} }}, {len(code)}) != {name})\n"
            f'\t\treturn fprintf(stderr, "{encoding}\\n"), 1;\n'
        )
    done = unit("tlb.c", body, tmp_path)
    assert done.returncode == 0, done.stderr


def test_model_tlb(tmp_path: Path) -> None:
    """The least recently used of four ways goes, a flush empties it, START counts anew."""
    done = unit("tlb.c", MODEL_CHECK, tmp_path)
    assert done.returncode == 0, done.stderr


# One vCPU: what it executes, and what the longest hold and stretch are then.
HOLDS_CHECK = """
	struct vcpu *v = &vcpus[0];
	const uint64_t kernel = ~0xffffffffULL, lock_a = 0x1000, lock_b = 0x2000;
	struct slot *slot;

	(void)info;
#define RUN(at, n, what) on_segment(0, ((union segment){ \
	.pc = (at), .insns = (n), .flags = (what) }).udata)
#define TAKE(lock) do { RUN(0x500, 1, SEG_TAKE); on_lock(0, NULL); on_take(0, 0, lock, NULL); \
	} while (0)
#define RELEASE(lock) do { on_lock(0, NULL); on_release(0, 0, lock, NULL); } while (0)
#define CHECK(what) do { if (!(what)) return fprintf(stderr, "%s\\n", #what), 1; } while (0)
	nr_vcpus = 1;
	calm.nr = 1;
	calm.first[0] = kernel | 0x100;
	calm.end[0] = kernel | 0x200;
	RUN(0x100, 50, 0);		/* before START nothing counts */
	poke(running, ++region);
	RUN(1, 9, SEG_USER);
	RUN(0x100, 10, 0);
	TAKE(lock_a);
	RUN(0x110, 5, 0);
	RUN(0x700, 99, SEG_IRQ);	/* an interrupt, that takes a lock of its own */
	TAKE(lock_b);
	RELEASE(lock_b);
	RUN(0x710, 99, SEG_IRET);
	CHECK(v->depth == 1 && v->count == 16);
	TAKE(lock_b);
	RUN(0x600, 7, SEG_WAIT);	/* until here b was another's */
	RUN(0x120, 3, 0);
	RELEASE(0x3000);		/* a byte, but no lock */
	RELEASE(lock_b);
	slot = &v->slots[0x110 % NR_SLOTS];
	CHECK(slot->caller == 0x110 && slot->holds == 1 && slot->longest == 3);
	RELEASE(lock_a);
	slot = &v->slots[0x100 % NR_SLOTS];
	CHECK(slot->holds == 1 && slot->sum == 16 && v->depth == 0);
	RUN(0x300, 1, 0);
	RUN(0x800, 1, SEG_YIELD);	/* not by one of "calm" */
	CHECK(!v->longest);
	RUN(0x130, 1, 0);
	RUN(0x800, 1, SEG_YIELD);
	CHECK(v->longest == 30 && v->longest_end == 0x130);
	RUN(0x140, 5, 0);
	RUN(0x900, 1, SEG_SWITCH);
	CHECK(v->longest == 30 && v->rested == 36);
	RUN(1, 9, SEG_USER);
	CHECK(v->count == 37 && v->rested == 37);
"""


def test_holds_and_stretches(tmp_path: Path) -> None:
    """Waiting and interrupts are left out; only calls of cond_resched() by some end a stretch."""
    done = unit("holds.c", HOLDS_CHECK, tmp_path)
    assert done.returncode == 0, done.stderr


LOCK_ENCODINGS = [
    ("f0 0f b1 17", 1, 0, 0),  # lock cmpxchg %edx,(%rdi)
    ("3e 0f b1 17", 1, 0, 0),  # the same on one CPU, where LOCK is patched
    ("c6 07 00", 0, 1, 0),  # movb $0,(%rdi)
    ("c6 07 01", 0, 0, 0),  # movb $1,(%rdi)
    ("40 88 37", 0, 1, 0),  # mov %sil,(%rdi)
    ("88 c8", 0, 0, 0),  # mov %cl,%al
    ("f3 48 ab", 0, 0, 1),  # rep stosq
    ("a4", 0, 0, 0),  # movsb, once
    ("0f b1", 0, 0, 0),  # cut short
]


def test_decoder_of_locks(tmp_path: Path) -> None:
    """What may take or release a lock, and string instructions, are told from look-alikes."""
    body = "\t(void)info;\n"
    for encoding, takes, releases, string in LOCK_ENCODINGS:
        code = encoding.split()
        array = f"(const uint8_t[]){{ {', '.join(f'0x{byte}' for byte in code)} }}, {len(code)}"
        body += (
            f"\tif (is_cmpxchg({array}) != {takes} || may_release({array}) != {releases} ||\n"
            f"\t    is_string({array}) != {string})\n"
            f'\t\treturn fprintf(stderr, "{encoding}\\n"), 1;\n'
        )
    done = unit("holds.c", body, tmp_path)
    assert done.returncode == 0, done.stderr


def test_holds_are_named_by_symbol(tmp_path: Path) -> None:
    symbols, path = tmp_path / "System.map", tmp_path / "holds.json"
    symbols.write_text("ffffffff81000100 T zap\nffffffff81000200 t put\n")
    holds = [(0x110, 2, 30, 20), (0x120, 2, 10, 6), (0x200, 1, 5, 5)]
    data = {
        "valid": True,
        "why": "",
        "stretches": [
            {"vcpu": 0, "longest": 9, "end": 0xFFFFFFFF81000100},
            {"vcpu": 1, "longest": 70, "end": 0xFFFFFFFF81000210},
        ],
        "holds": [
            {
                "vcpu": 0,
                "caller": 0xFFFFFFFF81000000 + at,
                "holds": n,
                "sum": total,
                "longest": most,
            }
            for at, n, total, most in holds
        ],
    }
    path.write_text(json.dumps(data))
    found = instruments.read_holds(path, symbols)
    assert (found.stretch, found.stretch_end) == (70, "put")
    assert found.longest == {"zap": 20, "put": 5}
    assert found.mean == {"zap": 10, "put": 5}
    path.write_text(json.dumps({**data, "stretches": []}))
    with pytest.raises(LabError, match="invalid"):
        instruments.read_holds(path, symbols)


def test_flushes_are_named_by_symbol(tmp_path: Path) -> None:
    symbols, path = tmp_path / "System.map", tmp_path / "tlb.json"
    rows = (
        "0000000000000000 A __per_cpu_start",
        "ffffffff81000000 T first",
        "ffffffff81000100 T switch_mm_irqs_off",
        "ffffffff81000200 t flush_tlb_func",
        "ffffffff81000300 D data",
    )
    symbols.write_text("\n".join(rows))
    data = {"valid": True, "why": "", "region": 1, "entries": 8, "accesses": [9, 5]}
    data |= {
        "fills": [3, 1],
        "flushes": [
            {"pc": 0xFFFFFFFF81000180, "what": "cr3", "count": [1, 2]},
            {"pc": 0xFFFFFFFF81000200, "what": "cr3", "count": [10, 20]},
            {"pc": 0xFFFFFFFF81000380, "what": "invlpg", "count": [100, 200]},
        ],
    }
    path.write_text(json.dumps(data))
    tlb = instruments.read_tlb(path, symbols)
    assert [flush.symbol for flush in tlb.flushes] == [
        *("switch_mm_irqs_off", "flush_tlb_func", "flush_tlb_func")
    ]
    assert tlb.flushed([0, 1], switches=True) == 3
    assert tlb.flushed([1], switches=False) == 20
    assert tlb.flushed_pages([0, 1]) == 300
    # As it is in a result.
    measure = scenario.Measure(instruments=["tlb"], app_cpus=[1])
    found = metrics.instruments_of(measure, topology.load("two-tier"), tmp_path, symbols)
    assert found["tlb"] == {
        **{"entries": 8, "accesses": 5, "fills": 1},
        **{"flushes": 20, "switches": 2, "pages": 200},
    }
    path.write_text(json.dumps({**data, "valid": False, "why": "no START marker"}))
    with pytest.raises(LabError, match="no START marker"):
        instruments.read_tlb(path, symbols)
    with pytest.raises(LabError, match="wrote no"):
        instruments.read_tlb(tmp_path / "none", symbols)
    with pytest.raises(LabError, match="12 entries"):
        instruments.tlb_plugin(path, plugins={"tlb": path}, entries=12)


def test_accesses_are_told_apart_by_vcpu_and_node(tmp_path: Path) -> None:
    """From the plugin's lines to what is local and what was waited for on two sockets."""
    machine = topology.load("two-sockets")
    done = unit("access.c", NODES_CHECK, tmp_path, HWADDR)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "access.jsonl"
    path.write_text(done.stdout)
    first, last = instruments.read_access(path, check=False)  # nothing was calibrated
    assert first.total == 0
    assert last.nodes == ((5, 3, 2, 1), (0,) * 4, (0, 7, 0, 4), (0,) * 4)
    near_0 = 5 * 100 + 3 * 180 + 2 * 250 + 1 * 330
    near_1 = 7 * 100 + 4 * 250
    assert metrics.socket_point(last, [0, 2], machine)[1:] == (15, 7, 12, near_0 + near_1)
    assert metrics.socket_point(last, [0], machine)[1:] == (8, 3, 5, near_0)
    # A result's points have these columns; on a machine with one socket the first three.
    path.write_text(done.stdout.replace('"valid":false', '"valid":true'))
    measure = scenario.Measure(instruments=["access"], app_cpus=[0, 2])
    found = metrics.instruments_of(measure, machine, tmp_path)
    assert [point[1:] for point in found["access"]] == [[0] * 4, [15, 7, 12, near_0 + near_1]]
    found = metrics.instruments_of(measure, topology.load("two-tier", fast_cpus=4), tmp_path)
    assert [point[1:] for point in found["access"]] == [[0, 0], [5, 17]]


def test_decoder(tmp_path: Path) -> None:
    """Locked operations and rep-prefixed strings are told from look-alikes."""
    body = "\t(void)info;\n"
    for encoding, locked, rep in ENCODINGS:
        code = encoding.split()
        array = ", ".join(f"0x{byte}" for byte in code)
        body += (
            f"\t{{ struct decoded d = decode((const uint8_t[]){{ {array} }}, {len(code)});\n"
            f"\t  if (d.locked != {locked} || d.rep_string != {rep})\n"
            f'\t\treturn fprintf(stderr, "{encoding}\\n"), 1; }}\n'
        )
    done = unit("insn.c", body, tmp_path)
    assert done.returncode == 0, done.stderr


FLOW = [
    ("e8 00 00 00 00", "call"),
    ("ff d0", "call"),  # call *%rax
    ("41 ff 54 24 08", "call"),  # call *8(%r12)
    ("ff 25 00 00 00 00", ""),  # jmp *(%rip)
    ("c3", "ret"),
    ("f3 c3", "ret"),
    ("c2 08 00", "ret"),
    ("48 89 a7 18 0b 00 00", "stores_sp"),  # mov %rsp,0xb18(%rdi)
    ("48 8b a6 18 0b 00 00", "loads_sp"),  # mov 0xb18(%rsi),%rsp
    ("48 89 e5", ""),  # mov %rsp,%rbp
    ("48 8b 86 18 0b 00 00", ""),  # mov 0xb18(%rsi),%rax
    ("48 cf", ""),  # iretq
]


def test_decoder_of_calls(tmp_path: Path) -> None:
    """Calls, returns and what switches stacks are told from look-alikes."""
    body = "\t(void)info;\n"
    for encoding, name in FLOW:
        code = encoding.split()
        array = ", ".join(f"0x{byte}" for byte in code)
        want = ", ".join(
            f".{item} = {int(item == name)}" for item in sorted({n for _, n in FLOW} - {""})
        )
        body += (
            f"\t{{ struct decoded d = decode((const uint8_t[]){{ {array} }}, {len(code)}),\n"
            f"\t  want = {{ {want} }};\n"
            f"\t  if (memcmp(&d, &want, sizeof(d)))\n"
            f'\t\treturn fprintf(stderr, "{encoding}\\n"), 1; }}\n'
        )
    done = unit("insn.c", body, tmp_path)
    assert done.returncode == 0, done.stderr


def test_calls_and_returns_make_the_kind(tmp_path: Path) -> None:
    """Nesting, a tail call, another task in between, an interrupt's frame, and user code."""
    done = unit("insn.c", CALLS_CHECK, tmp_path)
    assert done.returncode == 0, done.stderr


def test_unmatched_returns_make_the_result_invalid(tmp_path: Path) -> None:
    data = {"valid": True, "why": "", "phases": [], "vcpus": [], "symbols": [], "apart": [0]}
    data |= {"kinds": [{"kind": "scan", "process": [3], "thread": [4]}], "returns": [1000]}
    path = tmp_path / "insn.json"
    path.write_text(json.dumps(data | {"unmatched": [1]}))
    assert instruments.read_insn(path).kinds["scan"] == instruments.KindCount((3,), (4,))
    path.write_text(json.dumps(data | {"unmatched": [2]}))
    with pytest.raises(LabError, match=r"0\.2% of returns"):
        instruments.read_insn(path)


def test_programs_are_cached_by_content(tmp_path: Path) -> None:
    """Nothing is built twice, and nothing stale is used."""
    source = tmp_path / "hello.c"
    source.write_text('#include "value.h"\nint main(void) { return VALUE; }\n')
    (tmp_path / "value.h").write_text("#define VALUE 3\n")
    first = programs.build_guest_program(source, tmp_path / "cache")
    stamp = first.stat().st_mtime_ns
    again = programs.build_guest_program(source, tmp_path / "cache")
    assert again == first
    assert again.stat().st_mtime_ns == stamp
    assert subprocess.run([first], check=False).returncode == 3
    (tmp_path / "value.h").write_text("#define VALUE 4\n")
    other = programs.build_guest_program(source, tmp_path / "cache")
    assert other != first
    assert subprocess.run([other], check=False).returncode == 4
    source.write_text("int main(void) { return x; }\n")
    with pytest.raises(LabError, match="undeclared"):
        programs.build_guest_program(source, tmp_path / "cache")
