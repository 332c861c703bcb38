# SPDX-License-Identifier: GPL-2.0
"""Units of systemd, Prometheus alerts and the Grafana dashboard that tierctl brings."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import cache, run, source
from tierctl.core import texts

PACKAGE = Path(texts.__file__).parents[1]
UNITS, SHARE = PACKAGE / "units", PACKAGE / "share"
NAMES = (
    "tierctl.service",
    "tierctl-export.service",
    "tierctl-export.timer",
    "tierctl-record.service",
)
SERVICES = [one for one in NAMES if one.endswith(".service")]
METRIC = re.compile(r"\btier_[a-z_]+")
# The lines that systemd-analyze security says most about; the service that writes to the kernel
# cannot have all of them.
SANDBOX = {
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "PrivateNetwork": "yes",
    "RestrictAddressFamilies": "none",
    "RestrictNamespaces": "yes",
    "MemoryDenyWriteExecute": "yes",
    "SystemCallArchitectures": "native",
}
EXPOSURE = {"tierctl.service": 25, "tierctl-export.service": 12, "tierctl-record.service": 25}

analyze = pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="there is no systemd-analyze (package systemd)"
)


def unit(name: str) -> dict[str, dict[str, list[str]]]:
    """Sections of a unit; a key may come several times."""
    found: dict[str, dict[str, list[str]]] = {}
    section = ""
    for line in (UNITS / name).read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(section, {}).setdefault(key, []).append(value)
    return found


def sample_names() -> set[str]:
    """The names of metrics in queries."""
    return {
        f"{name}_total" if kind == "counter" else name for name, kind, *_ in texts.load()["metrics"]
    }


# --- units -----------------------------------------------------------------------


def test_all_units_are_there() -> None:
    assert sorted(one.name for one in UNITS.iterdir()) == sorted(NAMES)
    for name in NAMES:
        assert (UNITS / name).read_text().startswith("# SPDX-License-Identifier: GPL-2.0\n")
        parser = configparser.ConfigParser(strict=False, interpolation=None)
        parser.read(UNITS / name)


def test_profile_is_applied_at_boot_and_stays_when_the_service_stops() -> None:
    found = unit("tierctl.service")
    assert "systemd-sysctl.service" in found["Unit"]["After"]
    assert found["Unit"]["RequiresMountsFor"] == ["/var/lib"]
    service = found["Service"]
    assert service["Type"] == ["oneshot"] and service["RemainAfterExit"] == ["yes"]
    assert service["SuccessExitStatus"] == ["4"]
    assert service["ExecStart"] == ["/usr/bin/tierctl profile apply"]
    assert not [key for key in service if key.startswith("ExecStop")]
    # It writes below /sys and /proc/sys.
    assert not {"ProtectKernelTunables", "ProtectControlGroups", "DynamicUser"} & set(service)


def test_export_has_no_capability_and_no_user_of_its_own() -> None:
    service = unit("tierctl-export.service")["Service"]
    assert service["DynamicUser"] == ["yes"] and service["CapabilityBoundingSet"] == [""]
    assert not {"AmbientCapabilities", "ReadWritePaths", "User"} & set(service)
    privileged = [one for key in service for one in service[key] if one.startswith("+")]
    place = "/var/lib/prometheus/node-exporter"
    assert privileged == [
        f"+/bin/rm -f {place}/.tierctl.prom.new",
        f"+/bin/mv -f {place}/.tierctl.prom.new {place}/tierctl.prom",
    ]
    assert service["StandardOutput"] == [f"file:{place}/.tierctl.prom.new"]
    assert service["StandardError"] == ["journal"]  # else a warning goes to the metrics
    timer = unit("tierctl-export.timer")
    assert timer["Timer"]["OnUnitActiveSec"] == ["15s"]
    assert timer["Install"]["WantedBy"] == ["timers.target"]


def test_recorder_has_the_capabilities_that_it_needs_only() -> None:
    service = unit("tierctl-record.service")["Service"]
    wanted = "CAP_SYS_ADMIN CAP_SYS_PTRACE CAP_DAC_READ_SEARCH"
    assert service["CapabilityBoundingSet"] == [wanted]
    assert service["StateDirectory"] == ["tierctl/record"]


@pytest.mark.parametrize("name", SERVICES)
def test_services_are_in_a_sandbox(name: str) -> None:
    service = unit(name)["Service"]
    for key, value in SANDBOX.items():
        assert service.get(key) == [value], key
    assert "@system-service" in service["SystemCallFilter"]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root directory with the units, the targets they name, and programs."""
    root = tmp_path_factory.mktemp("root")
    units = root / "etc/systemd/system"
    units.mkdir(parents=True)
    for one in UNITS.iterdir():
        shutil.copy(one, units)
    system = root / "usr/lib/systemd/system"
    system.mkdir(parents=True)
    for name in ("basic", "sysinit", "shutdown", "timers", "multi-user"):
        (system / f"{name}.target").write_text("[Unit]\nDescription=x\n")
    for name in ("usr/bin/tierctl", "bin/rm", "bin/mv"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("#!/bin/sh\n")
        (root / name).chmod(0o755)
    return root


@analyze
@pytest.mark.parametrize("name", NAMES)
def test_systemd_finds_no_mistake(machine: Path, name: str) -> None:
    words = ["systemd-analyze", "verify", f"--root={machine}", "--man=no", name]
    found = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
    assert (found.returncode, found.stderr) == (0, "")


@analyze
@pytest.mark.parametrize("name", SERVICES)
def test_services_are_not_exposed(machine: Path, name: str) -> None:
    words = ["systemd-analyze", "security", "--offline=yes", f"--root={machine}"]
    words += [f"--threshold={EXPOSURE[name]}", name]
    found = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
    assert found.returncode == 0, found.stdout.splitlines()[-1]


# --- alerts ----------------------------------------------------------------------


def test_alerts_name_metrics_of_the_export_only() -> None:
    body = (SHARE / "alerts.yml").read_text()
    queries = re.findall(r"expr: (.*?)\n        for:", body, re.DOTALL)
    assert len(queries) == len(re.findall(r"- alert: ", body)) == 8
    for one in queries:
        assert METRIC.findall(one) and set(METRIC.findall(one)) <= sample_names(), one


def test_each_alert_has_a_test_that_fires_and_one_that_does_not() -> None:
    body = (SHARE / "alerts_test.yml").read_text()
    for name in re.findall(r"- alert: (\w+)", (SHARE / "alerts.yml").read_text()):
        assert f"alertname: {name}, exp_alerts: []" in body, name
        assert f"alertname: {name}\n" in body, name
    series = re.findall(r"series: '(tier_\w+)", body)
    assert set(series) <= sample_names()


Promtool = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def promtool() -> Promtool:
    """Calls promtool, which is unpacked of Debian's package prometheus."""
    version = run.output(["apt-cache", "madison", "prometheus"]).split("|")[1].strip()
    program = cache.sub("programs") / f"promtool-{version}"
    with cache.lock("promtool"):
        if not program.exists():
            deb = source.fetch("prometheus", version)
            script = 'dpkg-deb --fsys-tarfile "$1" | tar -xOf - ./usr/bin/promtool >"$2"'
            partial = program.with_name(f"{program.name}.partial")
            run.output(["sh", "-c", script, "sh", deb, partial])
            partial.chmod(0o755)
            partial.rename(program)

    def call(*words: str, place: Path = SHARE) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *words], cwd=place, capture_output=True, text=True, check=False, timeout=60
        )

    return call


def test_alerts_pass_their_tests(promtool: Promtool) -> None:
    found = promtool("test", "rules", "alerts_test.yml")
    assert found.returncode == 0, found.stdout + found.stderr


CHANGES = {
    "TierWaiting": ('state="waiting"', 'state="on"'),
    "TierPartly": ('partly"} == 1', 'partly"} == 0'),
    "TierProfileDiffers": ("verified == 0", "verified == 1"),
    "TierHotOnSlow": ("0.05 *", "0.07 *"),
    "TierBackAndForth": ("0.1 *", "0.3 *"),
    "TierScanAtLimit": ("0.9 *", "0.99 *"),
    "TierHintFaults": ("> 10\n", "> 1000\n"),
    "TierSlowNodeOffline": ("[1d]", "[10m]"),
}


def test_alerts_that_are_changed_fail_their_tests(promtool: Promtool, tmp_path: Path) -> None:
    body = (SHARE / "alerts.yml").read_text()
    for old, new in CHANGES.values():
        assert old in body
        body = body.replace(old, new)
    (tmp_path / "alerts.yml").write_text(body)
    shutil.copy(SHARE / "alerts_test.yml", tmp_path)
    found = promtool("test", "rules", "alerts_test.yml", place=tmp_path)
    assert found.returncode != 0
    for name in CHANGES:
        assert f"alertname: {name}," in found.stdout + found.stderr, name


# --- dashboard -------------------------------------------------------------------


def queries() -> list[str]:
    """The queries of all panels."""
    board = json.loads((SHARE / "grafana-dashboard.json").read_text())
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def test_dashboard_names_metrics_of_the_export_only() -> None:
    found = {name for query in queries() for name in METRIC.findall(query)}
    assert found <= sample_names()
    # These serve alerts only.
    assert sample_names() - found == {"tier_numa_balancing_mode", "tier_part_on"}


def test_dashboard_has_panels_that_do_not_overlap() -> None:
    board = json.loads((SHARE / "grafana-dashboard.json").read_text())
    cells: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        own = {(at["x"] + i, at["y"] + j) for i in range(at["w"]) for j in range(at["h"])}
        assert not cells & own and at["x"] + at["w"] <= 24
        cells |= own
        assert panel["title"] and panel["description"] and panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"]["uid"] == "${datasource}"
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_queries_of_the_dashboard_are_promql(promtool: Promtool, tmp_path: Path) -> None:
    rules = [
        {"record": f"x:{at}", "expr": query.replace("$__rate_interval", "5m")}
        for at, query in enumerate(queries())
    ]
    document = {"groups": [{"name": "board", "rules": rules}]}
    (tmp_path / "board.yml").write_text(json.dumps(document))  # JSON is YAML
    found = promtool("check", "rules", "board.yml", place=tmp_path)
    assert found.returncode == 0, found.stdout + found.stderr
