# SPDX-License-Identifier: GPL-2.0
"""Scenario files, the workloads' building blocks, and one small scenario in a guest."""

from __future__ import annotations

import io
import itertools
import json
import math
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import build, cache, programs, report, scenario
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
    for name in names:
        scenario.load(name)
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
        ('mode = "none"', 'mode = "damon"', "kmmscand issue"),
        ('mode = "none"', 'mode = "magic"', "magic"),
        ("cpus = [0]", 'cpus = ["0"]', "cpus[0]"),
        ("app_cpus = [0]", "app_cpus = [7]", "app_cpus"),
        ("app_cpus = [0]", "app_cpus = []", "app_cpus"),
        ('program = "hotset"', "", "program"),
        ("fast_cpus = 2", "fast_socks = 2", "fast_socks"),
        ('process = "workload"', 'process = "service"', "service"),
        ('kernel = "base"', 'kernel = "base"\nsettings = { foo = 1 }', "foo"),
        ("[workload]", "[workload", "good.toml"),
    ],
)
def test_mistakes_are_named(old: str, new: str, words: str) -> None:
    assert old in GOOD
    with pytest.raises(LabError) as caught:
        scenario.parse("good", GOOD.replace(old, new), "good.toml")
    assert words in str(caught.value)


def test_unknown_scenario_and_contender(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no scenario named"):
        scenario.load("nonsense")
    with pytest.raises(LabError, match="no contender"):
        scenario.run_scenario(
            "redis", kernels=build.kernel, out_dir=tmp_path, cache=tmp_path, contenders=["x"]
        )


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
    with pytest.raises(LabError, match="--external hotset"):
        scenario.make_job(parsed, parsed.contender[0], tmp_path, {"labmark": fake}, {})


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


def test_uniform_and_stream_do_the_work_they_were_given(built: dict[str, Path]) -> None:
    uniform = run_native(built["uniform"], "--size-mb", "16", "--iterations", "3")
    assert uniform["ops"] == 3 * 4096
    stream = run_native(built["stream"], "--size-mb", "16", "--passes", "3", "--stride", "128")
    assert (stream["ops"], stream["accesses"]) == (3 * 4096, 3 * 4096 * 32)


def test_wrong_options_are_refused(built: dict[str, Path]) -> None:
    for args in (["--colour", "1"], ["--ops"], ["--ops", "many"], ["--ops", "-3"]):
        done = subprocess.run([built["hotset"], *args], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and args[0] in done.stderr


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Path]:
    server = shutil.which("redis-server")
    if not server:
        pytest.skip("redis-server is not installed")
    path = tmp_path / "r.sock"
    with subprocess.Popen(
        [server, "--save", "", "--appendonly", "no", "--port", "0", "--unixsocket", str(path)],
        stdout=subprocess.DEVNULL,
        cwd=tmp_path,
    ) as process:
        for _ in range(100):
            if path.exists():
                break
            time.sleep(0.1)
        yield path
        process.kill()


def test_respload_stores_reads_and_notices_a_wrong_value(
    built: dict[str, Path], redis: Path
) -> None:
    program = built["respload"]
    common = ["--sock", str(redis), "--keys", "2000"]
    assert run_native(program, "bulk", *common)["keys"] == 2000
    run = ["run", *common, "--ops", "20000", "--verify", "1"]
    result = run_native(program, *run)
    assert (result["ops"], result["values_checked"]) == (20000, 20000)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(redis))
        client.sendall(b"SET key:00000000 " + b"x" * 1024 + b"\r\n")
        assert client.recv(64) == b"+OK\r\n"
    done = subprocess.run(
        [program, *run], input="GO\n", capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1 and "CORRUPTION: key 0" in done.stderr


# --- a small scenario in a guest ----------------------------------------------

SMALL = """
description = "small: a hot set that should be promoted"
[topology]
name = "TOPOLOGY"
sizes = { fast_mb = 192, slow_mb = 192, fast_cpus = 2 }
system_cpus = [1]
append = "clearcpuid=erms,fsrm"
[workload]
program = "hotset"
args = ["--size-mb", "32", "--pattern", "hotcold", "--seconds", "SECONDS", "--write-pct", "10"]
cpus = [0]
[placement]
process = "workload"
[measure]
instruments = ["access", "insn"]
app_cpus = [0]
cache_lines = 1024
timeout_s = 120
unit = "pick"
"""
CONTENDER = """
[[contender]]
name = "{0}"
mode = "{0}"
kernel = "{1}"
"""


def run_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> tuple[dict[str, object], str]:
    directory = tmp_path / "scenarios"
    directory.mkdir()
    (directory / "small.toml").write_text(text)
    monkeypatch.setattr(scenario, "DIRECTORY", directory)
    progress = io.StringIO()
    result = scenario.run_scenario(
        "small",
        kernels=build.kernel,
        out_dir=tmp_path / "out",
        cache=cache.root(),
        progress=progress,
    )
    shown = io.StringIO()
    report.print_table(result, shown)
    report.write(result, tmp_path / "out")
    return result, progress.getvalue() + shown.getvalue()


def test_small_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = SMALL.replace("TOPOLOGY", "two-tier").replace("SECONDS", "25")
    text += CONTENDER.format("none", "base") + CONTENDER.format("tiershift", "tiershift")
    text += "[check]\nrival_must_promote = true\n"
    result, shown = run_small(tmp_path, monkeypatch, text)
    assert result["failures"] == []
    figures = result["metrics"]["figures"]  # type: ignore[index]
    none, ours = figures["none"], figures["tiershift"]
    assert none["promoted"] == 0 and none["hit_ratio_end"] < 0.2
    assert ours["promoted"] > 0 and ours["hit_ratio_end"] > none["hit_ratio_end"] + 0.3
    assert ours["hot_on_fast"] > 0.5 > none["hot_on_fast"]
    assert ours["hint_faults"] == 0
    assert none["app_kernel"] > 0
    assert "fast tier serves" in shown and "pages promoted" in shown


def test_rival_that_promotes_nothing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without HMAT the slow node counts as top tier, and nothing is promoted."""
    text = SMALL.replace("TOPOLOGY", "two-tier-nohmat").replace("SECONDS", "5")
    text += CONTENDER.format("numab2", "base") + "[check]\nrival_must_promote = true\n"
    result, shown = run_small(tmp_path, monkeypatch, text)
    assert result["failures"] == ["numab2 promoted nothing: there is no comparison to make"]
    assert "FAILED CHECK" in shown
