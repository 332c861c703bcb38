# SPDX-License-Identifier: GPL-2.0
"""tierctl export: metrics, their text, groups by pattern."""

from __future__ import annotations

import json
import re
import resource
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tierctl_trees import DAMON, FAST, OLD, OURS, PLAIN, SLOW, STOCK, Spec, Stepping, build, vmstat

from tierctl import cli
from tierctl.change import config
from tierctl.change.config import Export
from tierctl.change.current import current
from tierctl.core import texts
from tierctl.core.errors import USAGE, TierctlError
from tierctl.core.source import Live, Source
from tierctl.export import metrics
from tierctl.export.metrics import Exporter, render
from tierctl.read import groups

NAME = re.compile(r"[a-z][a-z0-9_]*")


def of(source: Source, *wanted: str) -> Exporter:
    """An exporter."""
    return Exporter(source, wanted or Export().groups, current)


def exporter(tmp_path: Path, spec: Spec = OURS, *wanted: str) -> Exporter:
    """An exporter of a made-up machine."""
    return of(Stepping(build(tmp_path, spec)), *wanted)


def values(found: Exporter) -> dict[str, float]:
    """Values by "name{label=value}", in the order of labels."""
    result = {}
    for family in found.collect():
        for one in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in one.labels.items())
            result[f"{one.name}{{{labels}}}"] = one.value
    return result


# --- figures ---------------------------------------------------------------------


def test_our_kernel_has_all_metrics_of_the_specification(tmp_path: Path) -> None:
    names = {key.partition("{")[0] for key in values(exporter(tmp_path))}
    assert names >= {
        "tier_node_bytes",
        "tier_hot_on_slow_bytes",
        "tier_cold_on_fast_bytes",
        "tier_moved_bytes_total",
        "tier_bounced_bytes_total",
        "tier_not_promoted_pages_total",
        "tier_cpu_seconds_total",
        "tier_group_bytes",
        "tier_state",
        "tier_source_age_seconds",
    }
    assert "tier_profile_verified" not in names  # no profile is chosen


def test_values_are_those_of_the_machine(tmp_path: Path) -> None:
    found = values(exporter(tmp_path))
    assert found["tier_node_bytes{node=2,tier=slow,state=free}"] == int(1024 * 0.39 * 2**18) << 12
    assert found["tier_hot_on_slow_bytes{node=2,by=found}"] == 550_000 * 4096
    assert found["tier_moved_bytes_total{direction=up,by=promote}"] == 990_000 * 4096
    assert found["tier_moved_bytes_total{direction=down,by=kswapd}"] == 900_000 * 4096
    assert found["tier_bounced_bytes_total{}"] == 4_000 * 4096
    assert found["tier_cpu_seconds_total{thread=kmmscand0:1}"] == 1.0
    assert found["tier_state{state=on}"] == 1 and found["tier_state{state=waiting}"] == 0
    assert found["tier_nodes{tier=slow}"] == 1
    assert found["tier_cpu_limit_cpus{part=scan}"] == 0.248
    assert found["tier_not_promoted_pages_total{reason=watermark}"] == 100


def test_each_reason_counter_of_the_kernel_has_a_name(tmp_path: Path) -> None:
    declared = json.loads((Path(metrics.__file__).parents[1] / "declared.json").read_text())
    names = {one["name"] for one in declared["counters"]}
    reasons = {one for one in names if one.startswith((metrics.FAILED, "tier_promote_skip"))}
    found = [key for key in values(exporter(tmp_path)) if "not_promoted" in key]
    assert len(found) == len(reasons) + 1  # and tier_scan_skip_memcg
    assert set(metrics.REASONS) <= names


@pytest.mark.parametrize("spec", [STOCK, DAMON, OLD, PLAIN])
def test_unknown_figures_of_stock_kernels_are_left_out(tmp_path: Path, spec: Spec) -> None:
    found = values(exporter(tmp_path, spec))
    for absent in ("tier_state", "tier_part_on", "tier_bounced", "tier_cpu_limit", "tier_not_"):
        assert not [key for key in found if key.startswith(absent)], absent
    assert not [key for key in found if "by=promote" in key]
    assert spec is DAMON or not [key for key in found if "by=damon" in key]
    assert any(key.startswith("tier_node_bytes") for key in found)


def test_stock_kernel_has_an_estimate_that_is_marked(tmp_path: Path) -> None:
    found = values(exporter(tmp_path, STOCK))
    assert found["tier_hot_on_slow_bytes{node=2,by=mglru}"] > 0
    assert found["tier_moved_bytes_total{direction=up,by=numa_balancing}"] == 1_000_000 * 4096
    assert found["tier_source_age_seconds{source=mglru}"] == 50.0  # the look that begins "60 s"


def test_user_without_rights_has_no_figure_of_mglru(tmp_path: Path) -> None:
    found = exporter(tmp_path)
    assert isinstance(found.source, Stepping)
    found.source.denied = ("/sys/kernel/debug",)
    known = values(found)
    assert not [key for key in known if "cold_on_fast" in key or "source_age" in key]
    assert known["tier_hot_on_slow_bytes{node=2,by=found}"] > 0


def test_machine_without_anything_has_no_metric_and_no_error(tmp_path: Path) -> None:
    assert render(of(Live(str(tmp_path)))) == "# EOF\n"


@pytest.mark.parametrize(("mode", "by"), [(2, "promote_or_numa_balancing"), (0, "promote")])
def test_counters_are_exact_rows_while_both_promote(tmp_path: Path, mode: int, by: str) -> None:
    """The difference of two rows of which one lags may shrink, and rates would explode."""
    found = exporter(tmp_path, replace(OURS, numa_balancing=mode))
    ups = {key: one for key, one in values(found).items() if "direction=up" in key}
    rows = 1_000_000 if mode else 990_000
    assert ups == {f"tier_moved_bytes_total{{direction=up,by={by}}}": rows * 4096}
    downs = [key for key in values(found) if "direction=down" in key]
    assert any("promote_or_direct" in one for one in downs) and len(downs) == 3


def test_sum_of_moves_counts_no_page_twice(tmp_path: Path) -> None:
    for spec in (OURS, replace(OURS, parts_off=("promote",), numa_balancing=2), STOCK):
        tree = build(tmp_path / str(id(spec)), spec)
        tree.change("proc/vmstat", "pgdemote_direct 1000", "pgdemote_direct 5000")
        known = values(of(Stepping(tree)))
        downs = sum(one for key, one in known.items() if "direction=down" in key)
        assert downs == (900_000 + 5_000) * 4096


def test_counters_grow_only(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    found = of(Stepping(tree))
    first = values(found)
    tree.put("proc/vmstat", vmstat(OURS, 5))
    last = values(found)
    totals = [key for key in first if "_total{" in key]
    assert totals and all(last[key] >= first[key] for key in totals)


def test_profile_is_1_0_or_left_out(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    tree.put("etc/tierctl/tierctl.toml", 'settings = { "scan.period_ms" = 500 }')
    found = of(Stepping(tree))
    assert values(found)["tier_profile_verified{}"] == 1
    tree.put("sys/kernel/mm/tier/scan/period_ms", 700)
    assert values(found)["tier_profile_verified{}"] == 0
    tree.put("etc/tierctl/tierctl.toml", "profile = 3")
    assert "tier_profile_verified{}" not in values(found)


def test_damon_is_counted_once_it_was_asked(tmp_path: Path) -> None:
    tree = build(tmp_path, DAMON)
    stats = "sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0/stats/sz_applied"
    key = "tier_moved_bytes_total{direction=up,by=damon}"
    assert values(of(Stepping(tree)))[key] == 1 << 30
    tree.put(stats, 0)
    assert key not in values(of(Stepping(tree)))


# --- text ------------------------------------------------------------------------


def check_text(body: str) -> int:
    """Read OpenMetrics as Prometheus does; the number of samples."""
    families = text_string_to_metric_families(body)  # type: ignore[no-untyped-call]
    samples = [one for family in families for one in family.samples]
    assert all(one.value >= 0 for one in samples)
    return len(samples)


def test_text_is_openmetrics(tmp_path: Path) -> None:
    assert check_text(render(exporter(tmp_path, OURS, "*.slice", "*/*"))) > 40


def test_prometheus_text_names_counters_with_total_and_has_no_unit(tmp_path: Path) -> None:
    body = render(exporter(tmp_path), False)
    assert "# TYPE tier_moved_bytes_total counter\n" in body
    assert "# UNIT" not in body and "# EOF" not in body and body.endswith("\n")


def test_no_label_names_a_process(tmp_path: Path) -> None:
    found = exporter(tmp_path, replace(OURS, damon="migrate_hot"), "*/*")
    labels = [one.labels for family in found.collect() for one in family.samples]
    assert {key for one in labels for key in one} == {
        "node", "tier", "state", "by", "direction", "reason", "thread", "part", "group", "source"
    }  # fmt: skip
    threads = [one["thread"] for one in labels if "thread" in one]
    known = re.compile(r"(kmmscand|kpromoted|kswapd)\d+(:\d)?|kdamond\.\d+")
    assert threads and all(known.fullmatch(one) for one in threads)


def test_declared_names_have_units_as_suffix() -> None:
    for name, kind, unit, words in texts.load()["metrics"]:
        assert NAME.fullmatch(name) and name.startswith("tier_") and not name.endswith("_total")
        assert (name.endswith(f"_{unit}") or not unit) and kind in ("gauge", "counter")
        assert words.endswith(".")


# --- groups ----------------------------------------------------------------------


def test_patterns_choose_groups_by_part_of_the_path(tmp_path: Path) -> None:
    source, listed = Stepping(build(tmp_path, OURS)), []
    source.dirs = lambda path: listed.append(path) or Live.dirs(source, path)  # type: ignore[method-assign, func-returns-value]

    def names(*wanted: str) -> list[str]:
        return list(groups.labels(groups.chosen(source, wanted)).values())

    assert names("*.slice") == ["machine.slice", "system.slice"]
    assert names("machine.slice/*") == ["machine.slice/machine vm-db01"]
    root = "/sys/fs/cgroup"
    assert set(listed) == {root, f"{root}/machine.slice"}  # directories on the way only
    assert names("machine.slice/machine vm-*") == ["machine.slice/machine vm-db01"]
    assert names("system.slice/service000[02].service", "*.slice") == [
        "system.slice/service0000.service",
        "system.slice/service0002.service",
        "machine.slice",
        "system.slice",
    ]
    assert names("nothing/*", "none") == []


def test_labels_differ_although_names_agree() -> None:
    two = [
        "/machine.slice/machine-qemu\\x2d1\\x2da.scope",
        "/machine.slice/machine-qemu\\x2d2\\x2da.scope",
    ]
    assert len(set(groups.labels(two).values())) == 2
    assert groups.labels([*two, "/a\\x2db.slice"])["/a\\x2db.slice"] == "a-b.slice"
    assert groups.labels(two[:1]) == {two[0]: "machine.slice/machine a"}
    odd = ["/x\udcff", "/x\udcfe", "/x\n", "/x\x1b"]
    found = groups.labels(odd)
    assert len(set(found.values())) == 4
    assert all(one.isprintable() for one in found.values())


def test_at_most_200_groups_are_shown(tmp_path: Path) -> None:
    known = values(exporter(tmp_path, replace(OURS, groups=260), "*/*"))
    assert len({key for key in known if "tier=fast" in key and "group_bytes" in key}) == 200


def test_group_that_ends_meanwhile_is_left_out(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    (tree.root / "sys/fs/cgroup/system.slice/service0000.service/memory.numa_stat").unlink()
    known = values(of(Stepping(tree), "system.slice/*"))
    assert not [key for key in known if "service0000" in key]
    assert len([key for key in known if "tier=slow" in key and "group_bytes" in key]) == 3


def test_machine_without_cgroup_v2_has_no_groups(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    (tree.root / "sys/fs/cgroup/cgroup.controllers").unlink()
    found = of(Stepping(tree))
    assert not [key for key in values(found) if "group" in key]


# --- options ---------------------------------------------------------------------


def test_options_of_later_files_count(tmp_path: Path) -> None:
    tree = build(tmp_path, OURS)
    assert config.export(Stepping(tree)) == Export()
    tree.put("etc/tierctl/tierctl.toml", 'export = { groups = ["a/*"], interval_s = 30 }')
    tree.put("etc/tierctl/conf.d/x.toml", "[export]\ninterval_s = 60\n[record]\nmax_mb = 5")
    assert config.export(Stepping(tree)) == Export(("a/*",), 60)
    assert config.record(Stepping(tree)) == config.Record(10, 7, 5)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("export = 3", "export is no table"),
        ("export = { interval_s = 0 }", "interval_s is 0; give a whole number from 1 to 3600"),
        ("export = { interval_s = true }", "interval_s is True"),
        (f"export = {{ interval_s = 0x{'f' * 5000} }}", "a number with thousands of digits"),
        ('export = { groups = "x" }', "no list of at most 100 patterns"),
        ('export = { groups = ["a/../b"] }', "a/../b is no pattern"),
        ('export = { groups = ["a\\nb"] }', "is no pattern"),
        ("export = { groups = [3] }", "3 is no pattern"),
        ("export = { group = [] }", "unknown key group"),
    ],
)
def test_mistakes_in_export_name_the_file(tmp_path: Path, line: str, words: str) -> None:
    tree = build(tmp_path, OURS)
    tree.put("etc/tierctl/tierctl.toml", line)
    with pytest.raises(TierctlError) as found:
        config.export(Stepping(tree))
    assert words in str(found.value) and "/etc/tierctl/tierctl.toml" in str(found.value)
    assert found.value.code == USAGE


# --- command ---------------------------------------------------------------------


def run(root: Path, *words: str) -> int:
    """The command, on a tree."""
    return cli.main(["--root", str(root), "export", *words])


def test_missing_library_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path, OURS)
    for name in [one for one in sys.modules if one.startswith("tierctl.export")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    assert run(tmp_path) == USAGE
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "apt install python3-prometheus-client" in error


def test_unknown_hot_memory_is_left_out(tmp_path: Path) -> None:
    tree = build(tmp_path, STOCK)
    assert any("hot_on_slow" in key for key in values(of(Stepping(tree))))
    tree.put("sys/kernel/mm/lru_gen/enabled", "0x0006")  # bit 0 is the switch
    assert not any("hot_on_slow" in key for key in values(of(Stepping(tree))))


@pytest.mark.parametrize(
    "words",
    [
        ("--listen", "1:2:3"),
        ("--listen", "localhost"),
        ("--listen", "localhost:0"),
        ("--listen", ":99999"),
        ("--json",),
        ("--listen", "1", "--format", "prometheus"),
        ("--group", "x"),
        ("--format", "xml"),
    ],
)
def test_bad_words_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    build(tmp_path, OURS)
    assert run(tmp_path, *words) == USAGE
    assert capsys.readouterr().err.count("\n") == 1


def test_bundle_can_be_exported_and_not_listened_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path / "root", OURS)
    bundle = str(tmp_path / "b.json.gz")
    words = ["--root", str(tmp_path / "root"), "capture", bundle, "--interval", "0.05"]
    assert cli.main(words) == 0
    capsys.readouterr()
    assert cli.main(["--from", bundle, "export"]) == 0
    assert check_text(capsys.readouterr().out) > 30
    assert cli.main(["--from", bundle, "export", "--listen", "1"]) == USAGE


# --- cost ------------------------------------------------------------------------


def test_export_of_a_large_machine_is_within_its_budget(tmp_path: Path) -> None:
    """4 TiB, 1,000 groups, 512 CPUs: each 15 s less than 1 % of a CPU, Python's start included."""
    nodes = (replace(FAST, gib=1024), replace(FAST, gib=1024), replace(SLOW, gib=2048))
    build(tmp_path, replace(OURS, nodes=nodes, groups=1000, cpus=512, processes=100))
    costs = []
    for _ in range(3):
        found = of(Live(str(tmp_path)), "*/*")
        began = resource.getrusage(resource.RUSAGE_THREAD)
        render(found)
        ended = resource.getrusage(resource.RUSAGE_THREAD)
        costs.append(ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime)
    assert min(costs) < 0.1  # and 0.05 for the start


def test_part_whose_state_is_unknown_may_work(tmp_path: Path) -> None:
    found = exporter(tmp_path)
    assert isinstance(found.source, Stepping)
    found.source.denied = ("/sys/kernel/mm/tier/promote/state",)
    downs = [key for key in values(found) if "direction=down" in key]
    assert any("promote_or_direct" in one for one in downs)
    assert not any("by=direct" in one for one in downs)
