# SPDX-License-Identifier: GPL-2.0
"""Several processes on several sockets: the workload, the agent, the scenarios; no guest."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab import agent, programs, scenario

# Four made-up nodes for a native program: a page is on node 0 until it is moved, and
# FAKE_FULL is a node that takes none.
FAKE_NUMA = r"""
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static long fake_move_pages(unsigned long n, void **addr, const int *want, int *got)
{
	static unsigned char node[1 << 20];
	const char *full = getenv("FAKE_FULL");

	for (unsigned long i = 0; i < n; i++) {
		/* as many low bits as the tests' regions have */
		unsigned char *on = &node[((uintptr_t)addr[i] >> 12) % sizeof(node)];

		if (want && !(full && atoi(full) == want[i]))
			*on = (unsigned char)want[i];
		got[i] = *on;
	}
	return 0;
}
#define syscall(nr, pid, n, addr, want, got, flags) fake_move_pages(n, addr, want, got)
"""
CPUS = sorted(os.sched_getaffinity(0))[:2]
JOB = ["--size-mb", "16", "--pattern", "hotcold", "--hot-frac", "0.25"]
TWO = [*JOB, "--procs", "2", "--ops", "200000"]


@pytest.fixture(scope="module")
def hotset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if len(CPUS) < 2:
        pytest.skip("needs two CPUs")
    directory = tmp_path_factory.mktemp("hotset")
    (directory / "fake.h").write_text(FAKE_NUMA)
    source, binary = programs.WORKLOADS / "hotset.c", directory / "hotset"
    flags = ["-O2", "-std=gnu11", "-include", str(directory / "fake.h")]
    subprocess.run(["gcc", *flags, source, "-o", binary, "-lpthread", "-lm"], check=True)
    return binary


def run(program: Path, *args: str) -> subprocess.CompletedProcess[str]:
    cpus = ",".join(map(str, CPUS))
    return subprocess.run(
        ["taskset", "-c", cpus, program, *args],
        input="GO\n",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def result_of(program: Path, *args: str) -> dict[str, Any]:
    done = run(program, *args)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "READY"
    found: dict[str, Any] = json.loads(done.stdout.partition("RESULT ")[2])
    return found


def test_each_process_has_a_region_spread_over_the_nodes(hotset: Path) -> None:
    result = result_of(hotset, *TWO, "--place", "2,3")
    assert (result["ops"], result["accesses"]) == (400_000, 400_000 * 16)
    assert result["pages_before"] == result["pages_after"] == [0, 0, 4096, 4096]
    assert [proc["cpus"] for proc in result["procs"]] == [[cpu] for cpu in CPUS]
    hot = [proc["hot"] for proc in result["procs"]]
    assert [sum(pages) for pages in hot] == [1024, 1024]
    # Hot units are scattered, in each process in its own way, so they are on both nodes.
    assert all(450 < pages[2] < 574 for pages in hot) and hot[0] != hot[1]
    assert result["hot_on_fast"] == 0 and "swap_s" not in result and result["verified"]


def test_processes_change_places_once(hotset: Path) -> None:
    result = result_of(hotset, *TWO, "--place", "1", "--swap-at", "0.5", "--fast-node", "1")
    assert [proc["cpus"] for proc in result["procs"]] == [[cpu] for cpu in reversed(CPUS)]
    assert [proc["hot"] for proc in result["procs"]] == [[0, 1024], [0, 1024]]
    assert 0 < result["swap_s"] < result["seconds"] and result["hot_on_fast"] == 1


def test_one_process_tells_its_cpus_and_nodes_as_well(hotset: Path) -> None:
    result = result_of(hotset, *JOB, "--threads", "2", "--ops", "9000", "--place", "3")
    assert result["procs"] == [{"cpus": CPUS, "hot": [0, 0, 0, 1024]}]
    alone = result_of(hotset, *JOB, "--ops", "9000")
    assert alone["procs"] == [{"cpus": CPUS[:1], "hot": [1024, 0]}]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--procs", "0", "--ops", "9"], "1 or more"),
        (["--procs", "3", "--ops", "9"], "a CPU for each thread"),
        (["--procs", "2", "--threads", "2", "--ops", "9"], "a CPU for each thread"),
        (["--procs", "2", "--ops", "9", "--shift-at", "0.5"], "--procs is not for"),
        (["--procs", "2", "--ops", "9", "--place-hot", "0", "--place-mb", "1"], "is not for"),
        (["--ops", "9", "--swap-at", "0.5"], "--swap-at is a share"),
        (["--procs", "2", "--ops", "9000", "--swap-at", "1"], "--swap-at is a share"),
        (["--procs", "2", "--seconds", "1", "--swap-at", "0.5"], "--swap-at is a share"),
        (["--procs", "2", "--ops", "900", "--swap-at", "0.5"], "did not change CPUs"),
        (["--ops", "9", "--place", "2,"], "no list of nodes"),
        (["--ops", "9", "--place", "2;3"], "no list of nodes"),
        (["--ops", "9", "--place", "8"], "no list of nodes"),
    ],
)
def test_mistakes_are_named(hotset: Path, args: list[str], words: str) -> None:
    done = run(hotset, *JOB, *args)
    assert done.returncode == 1 and words in done.stderr
    assert "RESULT" not in done.stdout


@pytest.mark.parametrize("more", [[], ["--procs", "2"]])
def test_pages_that_do_not_go_are_an_error(
    hotset: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    """Also in one of several processes, for which the others must not wait."""
    monkeypatch.setenv("FAKE_FULL", "3")
    done = run(hotset, *JOB, *more, "--ops", "9000", "--place", "2,3")
    assert done.returncode == 1 and "READY" not in done.stdout
    assert "only [2048,0,2048] of 4096 pages went to nodes 2,3" in done.stderr


def test_agent_sees_all_processes_of_a_program(tmp_path: Path) -> None:
    spec = {"argv": ["/bin/sh", "-c", "sleep 60 & sleep 60 & echo UP; wait"], "cpus": CPUS[:1]}
    program = agent.Program(spec, tmp_path / "log", pipe=True)
    try:
        program.wait_for("UP", 10)
        found = agent.family(program.process.pid)
        assert found[0] == program.process.pid and len(found) == 3
        apart = [agent.residency(pid) for pid in found]
        assert sum(apart[0].values()) > sum(apart[1].values()) > 0  # a child has no family
        assert os.getpid() not in found
    finally:
        program.kill()


def test_agent_adds_up_what_processes_ran(tmp_path: Path) -> None:
    loop = "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done"
    spec = {"argv": ["/bin/sh", "-c", f"({loop}); ({loop}) & wait; echo UP; read x"]}
    program = agent.Program({**spec, "cpus": CPUS[:1]}, tmp_path / "log", pipe=True)
    try:
        program.wait_for("UP", 20)
        # The shell itself did nothing: its children did, and it has waited for them.
        assert agent.process_times(program.process.pid)["user"] > 0
    finally:
        program.kill()


def test_agent_measures_several_processes(hotset: Path, tmp_path: Path) -> None:
    """READY, GO, DONE and RESULT are said once, by the process that the agent started."""
    spec: dict[str, Any] = {"argv": [str(hotset), *TWO, "--swap-at", "0.5"], "cpus": CPUS}
    spec |= {"handshake": True, "duration_s": 0.0}
    job: dict[str, Any] = {"workload": spec, "oracle": False, "timeout_s": 60}
    job |= {"placement": None, "calibrate": False, "damon": None, "watch": None}
    job |= {"enter": [], "leave": []}
    workload = agent.Program(spec, tmp_path / "log", pipe=True)
    workload.wait_for("READY", 30)
    pid = workload.process.pid
    pages = agent.residency(pid)
    assert sum(pages.values()) > 2 * 4096
    bound = [os.sched_getaffinity(one) for one in agent.family(pid)[1:]]
    assert sorted(map(sorted, bound)) == [[cpu] for cpu in CPUS]
    recorder = agent.Recorder(1.0, pid, [], [])
    found = agent.measure(job, workload, pid, recorder)
    assert found["placement"] is None
    assert set(found["gave_up"]) == {"before", "after"}
    workload.finish(30)
    assert workload.lines.count("READY") == workload.lines.count("DONE") == 1
    assert workload.result()["ops"] == 400_000


@pytest.mark.parametrize("name", ["sockets", "sockets-moved", "sockets-shared", "sockets-split"])
def test_scenarios_use_both_sockets(name: str) -> None:
    parsed = scenario.load(name)
    machine = parsed.topology.load()
    assert [machine.socket_of_cpu(cpu) for cpu in parsed.workload.cpus] == [0, 1]
    assert parsed.measure.app_cpus == parsed.workload.cpus
    assert not {*parsed.topology.system_cpus} & {*parsed.workload.cpus}
    assert [(c.mode, c.kernel) for c in parsed.contender] == [
        ("none", "base"),
        ("none", "base"),
        ("numab2", "base"),
        ("damon", "base"),
        ("tiershift", "tiershift"),
    ]
    args = dict(zip(parsed.workload.args[::2], parsed.workload.args[1::2], strict=True))
    slow = [number for number in range(4) if number not in machine.fast]
    assert args["--place"] == ",".join(map(str, slow))
    assert ("--swap-at" in args) is (name == "sockets-moved")
    # The slow tier holds everything, and each fast node what is hot on both sockets beside
    # the kernel.
    procs, size = int(args.get("--procs", 1)), int(args["--size-mb"])
    assert procs * size < sum(machine.nodes[number].size_mb for number in slow) - 100
    assert procs * size * float(args["--hot-frac"]) < machine.nodes[0].size_mb - 100
    rules = parsed.check
    assert (procs == 2) is (name in ("sockets", "sockets-moved"))
    assert ("--split" in args) is (name == "sockets-split")
    if name == "sockets":
        assert rules.min_hot_on_own == 0.95
    else:
        # Where nobody can tell the right node, or nothing goes from one to the other
        assert rules.min_hot_on_fast and rules.max_sideways_share and rules.max_in_vain_share
        assert not rules.min_hot_on_own
