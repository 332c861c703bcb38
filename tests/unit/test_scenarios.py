# SPDX-License-Identifier: GPL-2.0
"""Scenario files, the workloads' building blocks, and one small scenario in a guest."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import io
import itertools
import json
import math
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import agent, build, cache, damon, manifest, programs, scenario, tier, topology
from lab.errors import LabError

GOOD = """
description = "small"
[topology]
name = "two-tier"
sizes = { fast_cpus = 2 }
system_cpus = [1]
[workload]
program = "hotset"
args = ["--ops", "1000"]
cpus = [0]
[placement]
process = "workload"
[measure]
instruments = []
app_cpus = [0]
[[contender]]
name = "none"
mode = "none"
kernel = "base"
"""


def test_every_scenario_is_valid() -> None:
    names = scenario.names()
    assert {"redis", "zipf-4k", "hotcold-4k", "hotcold-thp", "uniform", "stream", "pingpong"} <= (
        set(names)
    )
    for name in ("zipf-4k", "hotcold-4k", "hotcold-thp"):
        assert any(c.mode == "oracle" for c in scenario.load(name).contender)
    assert [c.name for c in scenario.load("redis").contender if not c.bench_only] == [
        *("none", "numab2", "tiershift"),
    ]
    for name in names:
        parsed = scenario.load(name)
        modes = {contender.mode for contender in parsed.contender}
        # Who measures against NUMA balancing measures against DAMON; external.toml is an example.
        assert "damon" in modes or "numab2" not in modes or name == "external"
        # What the oracle places must leave the kernel some of the fast node.
        for contender in parsed.contender:
            if contender.mode == "oracle":
                mib = int(contender.args[contender.args.index("--place-mb") + 1])
                assert mib < parsed.topology.load().nodes[0].size_mb - 64
    # The explanation of DAMON's keys shows their defaults.
    explained = next(c for c in scenario.load("zipf-4k").contender if c.mode == "damon")
    assert explained.damon == damon.Tunables()
    shifting = scenario.load("shifting")
    assert "--shift-at" in shifting.workload.args
    assert "external" not in scenario.list_scenarios()


def test_good_text_is_accepted() -> None:
    parsed = scenario.parse("good", GOOD, "good.toml")
    assert parsed.topology.load().vcpus == 2
    assert parsed.contender[0].demotion


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("instruments = []", "instrumints = []", "instrumints"),
        ('description = "small"', 'description = "small"\ncolour = 1', "colour"),
        ("instruments = []", 'instruments = ["perf"]', "perf"),
        ("instruments = []", 'instruments = []\naccesses = "all"', "accesses"),
        ('kernel = "base"', 'kernel = "base"\n[contender.damon]', "mode 'damon' only"),
        ('mode = "none"', 'mode = "damon"\ndamon = { aggr_us = 1 }', "sample_us"),
        ('mode = "none"', 'mode = "damon"\ndamon = { min_regions = 2 }', "min_regions"),
        ('mode = "none"', 'mode = "damon"\ndamon = { quota_ms = -1 }', "quota_ms is negative"),
        ('mode = "none"', 'mode = "damon"\ndamon = { hot_min_accesses = 21 }', "samples"),
        ('mode = "none"', 'mode = "damon"\ndamon = { warmth = 1 }', "warmth"),
        ('mode = "none"', 'mode = "damon"\ndamon = { young_filter = 1 }', "young_filter"),
        ('mode = "none"', 'mode = "magic"', "magic"),
        ("cpus = [0]", 'cpus = ["0"]', "cpus[0]"),
        ("app_cpus = [0]", "app_cpus = [7]", "app_cpus"),
        ("app_cpus = [0]", "app_cpus = []", "app_cpus"),
        ('program = "hotset"', "", "program"),
        ("fast_cpus = 2", "fast_socks = 2", "fast_socks"),
        ('process = "workload"', 'process = "service"', "service"),
        ('kernel = "base"', 'kernel = "base"\nsettings = { foo = 1 }', "foo"),
        ('mode = "none"', 'mode = "oracle"', "--place-hot"),
        ('mode = "none"', 'mode = "none"\nargs = [1]', "args[0]"),
        ("[workload]", "[workload", "good.toml"),
    ],
)
def test_mistakes_are_named(old: str, new: str, words: str) -> None:
    assert old in GOOD
    with pytest.raises(LabError) as caught:
        scenario.parse("good", GOOD.replace(old, new), "good.toml")
    assert words in str(caught.value)


def test_oracle_needs_a_program_that_takes_part() -> None:
    text = GOOD.replace('mode = "none"', 'mode = "oracle"\nargs = ["--place-hot", "0"]')
    assert scenario.parse("good", text, "g").contender[0].mode == "oracle"
    text = text.replace("cpus = [0]\n[placement]", "cpus = [0]\nhandshake = false\n[placement]")
    with pytest.raises(LabError, match="moves its own hot pages"):
        scenario.parse("good", text, "g")


def test_unknown_scenario_and_contender(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no scenario named"):
        scenario.load("nonsense")
    with pytest.raises(LabError, match="no contender"):
        scenario.run_scenario(
            scenario.load("redis"),
            kernels=build.kernel,
            out_dir=tmp_path,
            cache=tmp_path,
            contenders=["x"],
        )


def test_sweep_runs_variants_beside_tiershift() -> None:
    for name in scenario.list_scenarios():
        modes = {contender.mode for contender in scenario.load(name).contender}
        if not {"none", "numab2", "damon", "tiershift"} <= modes:
            with pytest.raises(LabError, match="no contender of mode"):
                scenario.load_sweep(name)
            continue
        swept = scenario.load_sweep(name)
        assert swept.name == f"sweep-{name}" and not swept.check.rival_must_promote
        assert swept.workload == scenario.load(name).workload
        modes_swept = [contender.mode for contender in swept.contender]
        assert modes_swept[:2] == ["none", "tiershift"]
        assert swept.contender[1] in scenario.load(name).contender
        assert 4 <= modes_swept.count("numab2") <= 7 and 3 <= modes_swept.count("damon") <= 4
        tuned = [(c.mode, c.settings, c.damon) for c in swept.contender]
        assert all(tuned.count(item) == 1 for item in tuned), "two variants are the same"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[variant]]\nname = 'x'\nmode = 'numab3'\nkernel = 'base'", "numab3"),
        ("[[variant]]\nname = 'none'\nmode = 'damon'\nkernel = 'base'", "two contenders"),
        ("[[variant]]\nname = 'x'\nmode = 'damon'\nkernel = 'base'\ndamon = { a = 1 }", "'a'"),
        ("[[variant]", "sweep.toml"),
    ],
)
def test_mistakes_in_a_sweep_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    (tmp_path / "sweep.toml").write_text(text)
    monkeypatch.setattr(scenario, "SWEEP", tmp_path / "sweep.toml")
    with pytest.raises(LabError) as caught:
        scenario.load_sweep("zipf-4k")
    assert words in str(caught.value)


def test_kernel_threads_and_processes_are_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid, (comm, ms) in enumerate([("kswapd0", 1500), ("kdamond.1", 20), ("kworker/0:1", 9)]):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "comm").write_text(comm + "\n")
        (tmp_path / str(pid) / "sched").write_text(
            f"{comm} ({pid}, #threads: 1)\n---\nse.exec_start   :  77.0\n"
            f"se.sum_exec_runtime                          :        {ms}.250000\n"
        )
    (tmp_path / "9").mkdir()
    (tmp_path / "9" / "comm").write_text("kcompactd1\n")  # it ended: no sched
    stat = "7 (a (b) c) S " + " ".join(["0"] * 10) + " 250 50 0 0\n"
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(stat)
    tick = os.sysconf("SC_CLK_TCK")
    real = Path
    monkeypatch.setattr(agent, "Path", lambda path: real(str(path).replace("/proc", str(tmp_path))))
    assert agent.kernel_threads([]) == {"kswapd0": 1.50025, "kdamond.1": 0.02025}
    assert agent.kernel_threads(["kworker/0:"]).keys() == {"kswapd0", "kdamond.1", "kworker/0:1"}
    assert agent.process_times(7) == {"user": 250 / tick, "system": 50 / tick}
    assert agent.less({"a": 3.0, "new": 2.0}, {"a": 1.0, "gone": 4.0}) == {"a": 2.0, "new": 2.0}


def test_nodes_whose_kswapd_has_given_up() -> None:
    zone = "Node {0}, zone    DMA32\n  pages free     4\n  node_unreclaimable:  {1}\n"
    text = zone.format(0, 0) + "Node 0, zone   Normal\n  pages free     4\n" + zone.format(1, 1)
    assert agent.unreclaimable(text) == [1]
    assert agent.unreclaimable("") == []


def test_job_of_a_contender(tmp_path: Path) -> None:
    fake = tmp_path / "fake"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    parsed = scenario.parse(
        "good", GOOD.replace('"none"\nmode = "none"', '"n2"\nmode = "numab2"'), "g"
    )
    job = scenario.make_job(
        parsed, parsed.contender[0], tmp_path, {"labmark": fake}, {"hotset": fake}
    )
    assert job["workload"]["argv"] == [str(tmp_path / "bin" / "fake"), "--ops", "1000"]
    assert ("/proc/sys/kernel/numa_balancing", "2") in job["enter"]
    assert ("/proc/sys/kernel/numa_balancing", "0") in job["leave"]
    assert (job["damon"], job["oracle"], job["watch"]) == (None, False, None)
    assert (job["counters"], job["threads"]) == (manifest.counters(), manifest.threads())
    # kswapd must not give up while the machine fills.
    assert job["settings"] == [(scenario.DEMOTION, "1")]
    with pytest.raises(LabError, match="--external hotset"):
        scenario.make_job(parsed, parsed.contender[0], tmp_path, {"labmark": fake}, {})


@pytest.mark.parametrize("demotion", [True, False])
def test_job_of_ours_switches_parts_of_memory_tiering(tmp_path: Path, demotion: bool) -> None:
    fake = tmp_path / "fake"
    fake.write_text("")
    fake.chmod(0o755)
    batch, demote, promote, scan = map(tier.enabled, ("batch", "demote", "promote", "scan"))
    text = GOOD.replace('mode = "none"', 'mode = "tiershift"')
    text += f"demotion = {str(demotion).lower()}\nsettings = {{ '{promote}' = 0 }}\n"
    parsed = scenario.parse("good", text, "g")
    job = scenario.make_job(
        parsed, parsed.contender[0], tmp_path, {"labmark": fake}, {"hotset": fake}
    )
    wanted = (demote, "1" if demotion else "0")
    # What a contender's settings name stays as they say.
    assert job["settings"] == [wanted, (promote, "0")]
    assert job["enter"] == [wanted, (batch, "1"), (scan, "1")]
    assert job["leave"] == [(promote, "0"), (scan, "0"), (batch, "0"), (demote, "0")]
    assert job["needs"] == [batch, scan, promote]


def test_damon_needs_a_slow_node() -> None:
    text = GOOD.replace('mode = "none"', 'mode = "damon"')
    assert scenario.parse("good", text, "g").contender[0].damon is None
    text = text.replace('"two-tier"', '"one-tier"').replace('process = "workload"', "target='fast'")
    with pytest.raises(LabError, match="without CPUs"):
        scenario.parse("good", text, "g")


def test_agent_imports_what_is_copied_for_it(tmp_path: Path) -> None:
    command = scenario.copy_agent(tmp_path)
    assert Path(command[-1]).exists()
    code = "import lab.agent; print(lab.agent.__file__)"
    done = subprocess.run(
        [*command[:-1], "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stdout.strip() == command[-1], done.stderr


def test_job_of_damon(tmp_path: Path) -> None:
    fake = tmp_path / "fake"
    fake.write_text("")
    fake.chmod(0o755)
    text = GOOD.replace('mode = "none"', 'mode = "damon"\ndamon = { cold_min_age = 9 }')
    parsed = scenario.parse("good", text, "g")
    job = scenario.make_job(
        parsed, parsed.contender[0], tmp_path, {"labmark": fake}, {"hotset": fake}
    )
    assert job["damon"]["tunables"]["cold_min_age"] == 9
    assert job["damon"]["tunables"]["sample_us"] == damon.Tunables().sample_us
    assert job["damon"]["flows"] == [
        {"node": 1, "action": "migrate_hot", "target": 0},
        {"node": 0, "action": "migrate_cold", "target": 1},
    ]
    assert job["needs"] == [str(damon.ADMIN / "nr_kdamonds")]


# --- DAMON ---------------------------------------------------------------------

# Two zones that touch, one without pages, and the slow node.
ZONEINFO = """\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 1
  pages free     3840
        boost    0
        spanned  4095
        present  3998
  start_pfn:           1
Node 0, zone    DMA32
  pages free     40000
        spanned  53248
  start_pfn:           4096
Node 0, zone   Normal
  pages free     0
        spanned  0
Node 1, zone    DMA32
  pages free     90000
        spanned  98304
  start_unreclaimable: 0
  start_pfn:           57344
"""
DAMON_SCHEME = """action target_nid apply_interval_us access_pattern/sz/min access_pattern/sz/max
access_pattern/nr_accesses/min access_pattern/nr_accesses/max access_pattern/age/min
access_pattern/age/max quotas/ms quotas/bytes quotas/reset_interval_ms
quotas/weights/sz_permil quotas/weights/nr_accesses_permil quotas/weights/age_permil
filters/nr_filters"""
# What each nr_ file of mm/damon/sysfs*.c (6.12) makes in a numbered directory.
DAMON_TREE = {
    "nr_kdamonds": "state contexts/nr_contexts",
    "nr_contexts": """operations monitoring_attrs/intervals/sample_us
        monitoring_attrs/intervals/aggr_us monitoring_attrs/intervals/update_us
        monitoring_attrs/nr_regions/min monitoring_attrs/nr_regions/max targets/nr_targets
        schemes/nr_schemes""",
    "nr_targets": "pid_target regions/nr_regions",
    "nr_regions": "start end",
    "nr_schemes": DAMON_SCHEME,
    "nr_filters": "type matching",
}


class FakeDamon:
    """DAMON's sysfs: a directory exists only after its number was written."""

    def __init__(self, admin: Path) -> None:
        self.admin = admin
        self.values = {"nr_kdamonds": "0"}
        self.commands: list[str] = []
        self.moved = {"0": 40960, "1": 8192}

    def write(self, path: str, value: str) -> None:
        name = str(Path(path).relative_to(self.admin))
        assert name in self.values, f"{name} does not exist yet"
        self.values[name] = value
        base, last = name.rpartition("/")[0], name.rpartition("/")[2]
        if last in DAMON_TREE:
            for number in range(int(value)):
                where = f"{base}/{number}".lstrip("/")
                self.values.update({f"{where}/{leaf}": "" for leaf in DAMON_TREE[last].split()})
        if last == "state":
            self.commands.append(f"{base} {value}")
        if value == "update_schemes_stats":
            assert self.commands.count(f"{base} off") == 0, "only a running kdamond answers"
            stats = self.admin / base / "contexts/0/schemes/0/stats"
            stats.mkdir(parents=True)
            for item in damon.STATS:
                (stats / item).write_text(f"{self.moved[base] if item == 'sz_applied' else 7}\n")


def damon_job(demotion: bool = True, **tunables: object) -> dict[str, Any]:
    flows = scenario.damon_flows(topology.load("two-tier"), demotion)
    return {"flows": flows, "tunables": dataclasses.asdict(damon.Tunables()) | tunables}


def test_damon_reads_the_nodes_memory() -> None:
    assert damon.memory(ZONEINFO) == {
        0: [(4096, 57344 * 4096)],
        1: [(57344 * 4096, (57344 + 98304) * 4096)],
    }
    assert damon.memory("") == {}


def test_damon_is_set_up_in_an_order_that_sysfs_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damon, "ADMIN", tmp_path)
    fake, job = FakeDamon(tmp_path), damon_job(hot_min_accesses=2, quota_bytes=4096)
    for path, value in damon.plan(job, damon.memory(ZONEINFO)):
        fake.write(path, value)
    context = "{}/contexts/0/{}"
    seen = [
        {
            leaf: fake.values[context.format(kdamond, leaf)]
            for leaf in (
                "operations",
                "targets/0/regions/nr_regions",
                "targets/0/regions/0/start",
                "schemes/0/action",
                "schemes/0/target_nid",
                "schemes/0/access_pattern/nr_accesses/min",
                "schemes/0/access_pattern/nr_accesses/max",
                "schemes/0/access_pattern/age/min",
                "schemes/0/filters/0/matching",
            )
        }
        for kdamond in (0, 1)
    ]
    assert list(seen[0].values()) == [
        *("paddr", "1", str(57344 * 4096), "migrate_hot", "0"),
        *("2", str(2**32 - 1), "0", "N"),
    ]
    assert list(seen[1].values()) == [
        *("paddr", "1", "4096", "migrate_cold", "1"),
        *("0", "0", "30", "Y"),
    ]
    assert fake.values["0/contexts/0/schemes/0/quotas/bytes"] == "4096"
    assert fake.values["0/contexts/0/schemes/0/access_pattern/sz/max"] == str(2**64 - 1)
    damon.switch(job, "on", fake.write)
    assert fake.commands == ["0 on", "1 on"]
    stats = damon.stop(job, fake.write)
    assert fake.commands[-2:] == ["0 off", "1 off"]
    assert (stats["migrate_hot"]["pages"], stats["migrate_cold"]["pages"]) == (10, 2)
    assert stats["migrate_hot"]["nr_tried"] == 7


def test_damon_without_demotion_or_filter() -> None:
    job = damon_job(demotion=False, young_filter=False)
    assert [flow["action"] for flow in job["flows"]] == ["migrate_hot"]
    writes = damon.plan(job, damon.memory(ZONEINFO))
    assert not any("filters" in path for path, _ in writes)


def test_damon_refuses_memory_that_it_cannot_tell_apart() -> None:
    with pytest.raises(ValueError, match="node 1 has no memory"):
        damon.plan(damon_job(), {0: [(4096, 8192)]})
    with pytest.raises(ValueError, match="overlap"):
        damon.plan(damon_job(), {0: [(0, 8192)], 1: [(4096, 12288)]})


def test_busy_kernel_file_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [errno.EBUSY, errno.EBUSY, 0]

    def write_text(path: Path, value: str, **_: object) -> None:
        if code := answers.pop(0):
            raise OSError(code, "no")

    monkeypatch.setattr(Path, "write_text", write_text)
    agent.write_setting("/sys/x", "on")
    assert answers == []
    answers[:] = [errno.EBUSY]
    with pytest.raises(agent.JobError, match="/sys/x"):
        agent.write_setting("/sys/x", "on", patience=-1)
    answers[:] = [errno.EINVAL, 0]
    with pytest.raises(agent.JobError, match="/sys/x"):
        agent.write_setting("/sys/x", "on")
    assert answers == [0]


# --- building blocks of the workloads, run natively ---------------------------

SAMPLER = r"""
#include "common.h"
int main(int argc, char **argv)
{
	uint32_t n = (uint32_t)atoi(argv[1]);
	uint64_t draws = strtoull(argv[3], NULL, 0), *count = calloc(n, sizeof(*count));
	struct alias zipf;
	uint32_t *perm;
	struct rng r;

	(void)argc;
	zipf_init(&zipf, n, atof(argv[2]));
	rng_seed(&r, 42);
	for (uint64_t i = 0; i < draws; i++)
		count[zipf_draw(&zipf, &r)]++;
	for (uint32_t i = 0; i < n; i++)
		printf("%llu\n", (unsigned long long)count[i]);
	perm = scatter(n, 42);
	for (uint32_t i = 0; i < n; i++)
		printf("%u\n", perm[i]);
	return 0;
}
"""


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[int], list[int]]:
    """Counts per rank of 4 million draws from Zipf(0.99), and a permutation."""
    directory = tmp_path_factory.mktemp("sampler")
    source = directory / "sampler.c"
    source.write_text(SAMPLER)
    binary = directory / "sampler"
    flags = ["-O2", "-std=gnu11", f"-I{programs.WORKLOADS}"]
    subprocess.run(["gcc", *flags, source, "-o", binary, "-lpthread", "-lm"], check=True)
    text = subprocess.run(
        [binary, "1000", "0.99", "4000000"], check=True, capture_output=True, text=True
    ).stdout
    numbers = [int(word) for word in text.split()]
    return numbers[:1000], numbers[1000:]


def chi_square(counts: list[int], theta: float) -> float:
    """In standard deviations from what Zipf(theta) gives."""
    weights = [math.pow(rank + 1, -theta) for rank in range(len(counts))]
    scale = sum(counts) / sum(weights)
    expected = [weight * scale for weight in weights]
    total = sum((c - e) ** 2 / e for c, e in zip(counts, expected, strict=True))
    free = len(counts) - 1
    return (total - free) / math.sqrt(2 * free)


def test_zipf_sampler_has_the_right_distribution(sampled: tuple[list[int], list[int]]) -> None:
    assert abs(chi_square(sampled[0], 0.99)) < 5
    # The test can tell: exponents nearby do not fit.
    assert chi_square(sampled[0], 0.98) > 20
    assert chi_square(sampled[0], 1.0) > 20


def test_scatter_is_a_permutation_without_order(sampled: tuple[list[int], list[int]]) -> None:
    perm = sampled[1]
    assert sorted(perm) == list(range(1000))
    neighbours = sum(abs(a - b) == 1 for a, b in itertools.pairwise(perm))
    assert neighbours < 20  # two are expected


@pytest.fixture(scope="module")
def built() -> dict[str, Path]:
    return programs.build_programs(cache.sub("programs"))


def run_native(program: Path, *args: str) -> dict[str, object]:
    done = subprocess.run(
        [program, *args], input="GO\n", capture_output=True, text=True, timeout=60, check=True
    )
    line = next(text for text in done.stdout.splitlines() if text.startswith("RESULT "))
    result: dict[str, object] = json.loads(line[7:])
    return result


@pytest.mark.parametrize("pattern", ["zipf", "hotcold"])
def test_hotset_does_the_work_it_was_given(built: dict[str, Path], pattern: str) -> None:
    result = run_native(
        built["hotset"],
        "--size-mb",
        "16",
        "--pattern",
        pattern,
        "--ops",
        "5000",
        "--threads",
        "2",
        "--touches",
        "3",
    )
    assert (result["ops"], result["accesses"], result["units"]) == (10000, 30000, 4096)
    assert result["verified"] is True


# Two made-up nodes for a native program: all pages on node 1, room for FAKE_ROOM on node 0.
FAKE_NUMA = r"""
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static long fake_move_pages(unsigned long n, void **addr, const int *want, int *got)
{
	static unsigned char node[1 << 20];
	static long room = -1;

	if (room < 0)
		room = atol(getenv("FAKE_ROOM"));
	for (unsigned long i = 0; i < n; i++) {
		/* as many low bits as the tests' regions have */
		unsigned char *on = &node[((uintptr_t)addr[i] >> 12) % sizeof(node)];

		if (want && !want[i] && !*on && room) {
			*on = 1;
			room--;
		}
		got[i] = !*on;
	}
	return 0;
}
#define syscall(nr, pid, n, addr, want, got, flags) fake_move_pages(n, addr, want, got)
"""


@pytest.fixture(scope="module")
def fake_numa_hotset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """hotset on a machine with a fast node 0 and a slow node 1."""
    directory = tmp_path_factory.mktemp("hotset")
    (directory / "fake.h").write_text(FAKE_NUMA)
    source, binary = programs.WORKLOADS / "hotset.c", directory / "hotset"
    flags = ["-O2", "-std=gnu11", "-include", str(directory / "fake.h")]
    subprocess.run(["gcc", *flags, source, "-o", binary, "-lpthread", "-lm"], check=True)
    return binary


ORACLE = ["--size-mb", "16", "--pattern", "hotcold", "--hot-frac", "0.25", "--ops", "2000"]


@pytest.mark.parametrize(
    ("mib", "hot", "extra"),
    [
        ("2", 0.5, []),
        ("4", 1.0, []),
        ("8", 1.0, []),
        ("4", 1.0, ["--unit-kb", "2048", "--pages", "thp"]),
    ],
)
def test_oracle_places_what_is_hottest(
    fake_numa_hotset: Path,
    monkeypatch: pytest.MonkeyPatch,
    mib: str,
    hot: float,
    extra: list[str],
) -> None:
    monkeypatch.setenv("FAKE_ROOM", "2048")
    args = [*ORACLE, *extra, "--place-hot", "0", "--place-mb", mib]
    result = run_native(fake_numa_hotset, *args)
    pages = int(mib) * 256
    assert (result["placed_hot"], result["placed_hot_after"]) == (pages, pages)
    assert result["pages_after"] == [pages, 4096 - pages]
    assert result["hot_on_fast"] == pytest.approx(hot, abs=0.001)
    assert "placed_hot" not in run_native(fake_numa_hotset, *ORACLE)


def test_oracle_fails_when_the_fast_node_is_full(
    fake_numa_hotset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_ROOM", "1023")
    args = [*ORACLE, "--place-hot", "0", "--place-mb", "4"]
    done = subprocess.run(
        [fake_numa_hotset, *args], input="GO\n", capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "only 1023 of 1024 hot pages" in done.stderr
    assert "PLACED" not in done.stdout


@pytest.mark.parametrize(
    "args",
    [
        ["--place-hot", "0"],
        ["--place-mb", "4"],
        ["--place-hot", "0", "--place-mb", "17"],
        ["--place-hot", "0", "--place-mb", "1", "--unit-kb", "2048"],
    ],
)
def test_oracle_wants_both_options(built: dict[str, Path], args: list[str]) -> None:
    done = subprocess.run(
        [built["hotset"], *ORACLE, *args], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "--place-hot NODE goes with --place-mb" in done.stderr


def test_hot_set_moves_once_to_other_pages(
    fake_numa_hotset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_ROOM", "4096")
    args = ["--size-mb", "16", "--pattern", "hotcold", "--hot-frac", "0.25", "--threads", "2"]
    args += ["--ops", "100000", "--place-hot", "0", "--place-mb", "4"]
    still = run_native(fake_numa_hotset, *args)
    assert still["hot_on_fast"] == 1.0 and "shift_s" not in still
    moved = run_native(fake_numa_hotset, *args, "--shift-at", "0.5")
    assert moved["hot_on_fast"] == 0.0 and moved["ops"] == still["ops"]
    assert 0 < float(str(moved["shift_s"])) < float(str(moved["seconds"]))
    # The hot set after it is the next by rank, which the oracle can hold as well.
    both = run_native(fake_numa_hotset, *args, "--shift-at", "0.5", "--place-mb", "8")
    assert both["hot_on_fast"] == 1.0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--ops", "9000", "--shift-at", "1"], "share below 1"),
        (["--ops", "9000", "--shift-at", "-0.5"], "share below 1"),
        (["--seconds", "1", "--shift-at", "0.5"], "share below 1"),
        (["--ops", "9000", "--shift-at", "0.5", "--shift-s", "1"], "share below 1"),
        (["--ops", "9000", "--shift-at", "0.5", "--hot-frac", "0.6"], "above 0.5"),
        (["--ops", "900", "--shift-at", "0.5"], "did not move"),
    ],
)
def test_hot_set_that_cannot_move(built: dict[str, Path], args: list[str], words: str) -> None:
    done = subprocess.run(
        [built["hotset"], "--size-mb", "16", "--pattern", "hotcold", *args],
        input="GO\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and words in done.stderr


@pytest.mark.parametrize("oracle", [True, False])
def test_agent_measures_after_the_oracle_placed(
    built: dict[str, Path], tmp_path: Path, oracle: bool
) -> None:
    """The agent's part, natively: two GOs for an oracle, the counters between them."""
    place = ["--place-hot", "0", "--place-mb", "4"] if oracle else []
    spec = {"argv": [str(built["hotset"]), *ORACLE, *place], "cpus": [0], "handshake": True}
    spec["duration_s"] = 0.0
    job: dict[str, Any] = {"workload": spec, "oracle": oracle, "timeout_s": 60}
    job |= {
        "placement": None,
        "calibrate": False,
        "damon": None,
        "watch": None,
        "enter": [],
        "leave": [],
    }
    workload = agent.Program(spec, tmp_path / "log", pipe=True)
    workload.wait_for("READY", 30)
    assert "PLACED" not in workload.lines
    recorder = agent.Recorder(1.0, workload.process.pid, [], [])
    found = agent.measure(job, workload, workload.process.pid, recorder)
    assert found.pop("gave_up").keys() == {"before", "after"}
    assert found == {"placement": None}
    workload.finish(30)
    assert ("PLACED" in workload.lines) is oracle
    assert workload.result()["ops"] == 2000
    assert recorder.result()["seconds"] > 0


def test_uniform_and_stream_do_the_work_they_were_given(built: dict[str, Path]) -> None:
    uniform = run_native(built["uniform"], "--size-mb", "16", "--iterations", "3")
    assert uniform["ops"] == 3 * 4096
    stream = run_native(built["stream"], "--size-mb", "16", "--passes", "3", "--stride", "128")
    assert (stream["ops"], stream["accesses"]) == (3 * 4096, 3 * 4096 * 32)


def test_wrong_options_are_refused(built: dict[str, Path]) -> None:
    for args in (["--colour", "1"], ["--ops"], ["--ops", "many"], ["--ops", "-3"]):
        done = subprocess.run([built["hotset"], *args], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and args[0] in done.stderr


SERVERS = {
    "redis": ["redis-server", "--save", "", "--appendonly", "no", "--port", "0", "--unixsocket"],
    "memcached": ["memcached", "-u", "root", "-t", "1", "-m", "32", "-M", "-s"],
}


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A real server: its protocol and its socket."""
    command = SERVERS[request.param]
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    path = tmp_path / "sock"
    with subprocess.Popen([*command, path], stdout=subprocess.DEVNULL, cwd=tmp_path) as process:
        for _ in range(100):
            if path.exists():
                break
            time.sleep(0.1)
        yield request.param, path
        process.kill()


def test_respload_stores_reads_and_notices_a_wrong_value(
    built: dict[str, Path], server: tuple[str, Path]
) -> None:
    program, (protocol, path) = built["respload"], server
    common = ["--protocol", protocol, "--sock", str(path), "--keys", "2000"]
    assert run_native(program, "bulk", *common)["keys"] == 2000
    run = ["run", *common, "--ops", "20000", "--verify", "1"]
    result = run_native(program, *run)
    assert (result["ops"], result["values_checked"]) == (20000, 20000)
    wrong = {
        "redis": (b"SET key:00000000 " + b"x" * 1024 + b"\r\n", b"+OK\r\n"),
        "memcached": (b"set key:00000000 0 0 1024\r\n" + b"x" * 1024 + b"\r\n", b"STORED\r\n"),
    }
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(wrong[protocol][0])
        assert client.recv(64) == wrong[protocol][1]
    done = subprocess.run(
        [program, *run], input="GO\n", capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1 and "CORRUPTION: key 0" in done.stderr


def test_what_is_not_run_again_is_kept_only_if_nothing_changed() -> None:
    one = scenario.load("shifting")
    kernels: dict[str, dict[str, Any]] = {"base": {"key": "b"}, "tiershift": {"key": "t"}}
    asked = json.loads(
        json.dumps([dataclasses.asdict(one), one.topology.load()], default=dataclasses.asdict)
    )
    runs: list[dict[str, Any]] = [
        {"name": item.name, "kernel": kernels[item.kernel]} for item in one.contender
    ]
    runs[0]["date"] = "then"
    earlier = {"date": "now", "setup": asked[0], "machine": asked[1], "contenders": runs}

    kept = scenario.kept_runs(one, earlier, ["tiershift"], kernels.__getitem__)
    assert [run["name"] for run in kept] == [
        item.name for item in one.contender if item.name != "tiershift"
    ]
    assert [run["date"] for run in kept[:2]] == ["then", "now"]

    # The kernel of what is run again may change, that of the others may not.
    kernels["tiershift"] = {"key": "t2"}
    assert scenario.kept_runs(one, earlier, ["tiershift"], kernels.__getitem__) == kept
    with pytest.raises(LabError, match="kernels of tiershift changed"):
        scenario.kept_runs(one, earlier, ["numab2"], kernels.__getitem__)
    kernels["base"] = {"key": "b2"}
    with pytest.raises(LabError, match="kernels of none, numab2"):
        scenario.kept_runs(one, earlier, ["tiershift"], kernels.__getitem__)
    kernels["base"] = {"key": "b"}
    earlier["setup"]["workload"]["cpus"] = [0]
    with pytest.raises(LabError, match="the scenario or its machine changed"):
        scenario.kept_runs(one, earlier, ["tiershift"], kernels.__getitem__)


def test_a_state_that_is_reached_is_not_busy(tmp_path: Path, monkeypatch: Any) -> None:
    state = tmp_path / "state"
    state.write_text("on\n")

    def busy(*_: Any, **__: Any) -> int:
        raise OSError(errno.EBUSY, "busy")

    monkeypatch.setattr(Path, "write_text", busy)
    agent.write_setting(str(state), "on", patience=0.0)
    with pytest.raises(agent.JobError, match="busy"):
        agent.write_setting(str(state), "off", patience=0.0)


class FakeMemcached:
    """As much of memcached as respload uses, with a fault to order."""

    def __init__(self, path: Path, fault: str) -> None:
        self.values: dict[bytes, bytes] = {}
        self.fault = fault
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(path))
        self.socket.listen()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        for _ in range(2):
            client, _address = self.socket.accept()
            with contextlib.suppress(OSError), client, client.makefile("rwb") as stream:
                while line := stream.readline():
                    stream.write(self.answer(line.split(), stream))
                    stream.flush()

    def answer(self, words: list[bytes], stream: io.BufferedRWPair) -> bytes:
        key, last = words[1], words[1] == b"key:00000099"
        if words[0] == b"set":
            data = stream.read(int(words[4]) + 2)
            assert words[2:4] == [b"0", b"0"] and data.endswith(b"\r\n")
            if self.fault == "full" and last:
                return b"SERVER_ERROR out of memory storing object\r\n"
            self.values[key] = data[:-2]
            return b"STORED\r\n"
        assert words[0] == b"get"
        value = self.values[key]
        if self.fault == "miss" and last:
            return b"END\r\n"
        if self.fault == "other key" and last:
            key = b"key:00000001"
        if self.fault == "other value" and last:
            value = self.values[b"key:00000001"]
        end = b"\r\nEND!\n" if self.fault == "end" and last else b"\r\nEND\r\n"
        return b"VALUE %s 0 %d\r\n%s%s" % (key, len(value), value, end)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("", ""),
        ("full", "answered 'SERVER_ERROR out of memory"),
        ("miss", "answered 'END' instead of 'VALUE"),
        ("other key", "key 99: the server answered VALUE key:00000001"),
        ("other value", "CORRUPTION: key 99"),
        ("end", "key 99: the value does not end"),
    ],
)
def test_respload_speaks_memcached(
    built: dict[str, Path], tmp_path: Path, fault: str, words: str
) -> None:
    path = tmp_path / "sock"
    fake = FakeMemcached(path, fault)
    common = ["--protocol", "memcached", "--sock", str(path), "--keys", "100", "--size", "64"]
    if fault != "full":
        assert run_native(built["respload"], "bulk", *common)["keys"] == 100
        assert len(set(fake.values.values())) == 100
    what = "bulk" if fault == "full" else "run"
    ops = ["--ops", "4000", "--theta", "0.1", "--verify", "1"]
    done = subprocess.run(
        [built["respload"], what, *common, *ops],
        input="GO\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, words in done.stderr) == (1 if fault else 0, True), done.stderr
    assert ('"values_checked":4000' in done.stdout) is not bool(fault)


def test_respload_knows_its_protocols(built: dict[str, Path]) -> None:
    done = subprocess.run(
        [built["respload"], "bulk", "--protocol", "gopher"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and "redis or memcached" in done.stderr
