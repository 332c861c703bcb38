# SPDX-License-Identifier: GPL-2.0
"""tierctl export --listen: what the port answers, and how often it reads the machine."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.core import Metric
from tierctl_trees import OURS, Stepping, build

from tierctl.change.current import current
from tierctl.core.errors import FINDING, USAGE, TierctlError
from tierctl.core.pace import Pace
from tierctl.export import serve
from tierctl.export.metrics import Exporter, render
from tierctl.export.serve import Paced

PROJECT = Path(__file__).resolve().parents[2]


def exporter(tmp_path: Path) -> Exporter:
    """An exporter of a made-up machine."""
    return Exporter(Stepping(build(tmp_path, OURS)), ["*.slice"], current)


def free_port() -> int:
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.fixture
def metrics(tmp_path: Path) -> Paced:
    """Metrics of a made-up machine."""
    return Paced(exporter(tmp_path), 0.001)


def get(port: int, accept: str = "*/*") -> tuple[str, str]:
    """The type of an answer, and its text."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as found:
        return found.headers["Content-Type"], found.read().decode()


def test_port_answers_in_both_formats_and_names_no_python_process(metrics: Paced) -> None:
    port = free_port()
    assert serve.start(metrics, str(port)) == f"127.0.0.1:{port}"
    kind, body = get(port)
    assert kind.startswith("text/plain") and "tier_node_bytes{" in body and "python_" not in body
    kind, body = get(port, "application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text") and body.endswith("# EOF\n")


@pytest.mark.parametrize("said", [b"", b"GET", b"GET /metrics HTTP/1.1\r\nHost: x\r\n"])
def test_silent_client_is_dropped_without_a_word(
    metrics: Paced,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    said: bytes,
) -> None:
    monkeypatch.setattr(serve._Handler, "timeout", 0.1)
    port, before = free_port(), threading.active_count()
    serve.start(metrics, str(port))
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        client.sendall(said)
        assert client.recv(1) == b""
    ended(before + 1)
    assert capfd.readouterr().err == ""


def ended(count: int) -> None:
    """Wait until no more threads are there than some."""
    until = time.monotonic() + 10
    while threading.active_count() > count and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() <= count


def test_oldest_connection_of_too_many_makes_room(
    metrics: Paced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve._Handler, "timeout", 600.0)
    port, before = free_port(), threading.active_count()
    serve.start(metrics, str(port))
    with contextlib.ExitStack() as stack:
        idle = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
            for _ in range(serve.MOST + 3)
        ]
        idle[-1].sendall(b"GET /metrics HTTP/1.1\r\nSlow: ")  # and no more
        assert "tier_node_bytes{" in get(port)[1]
        assert idle[0].recv(1) == idle[2].recv(1) == b""
        assert threading.active_count() - before <= 1 + serve.MOST
        idle[-1].settimeout(0.05)
        with pytest.raises(TimeoutError):  # a younger one stays
            idle[-1].recv(1)


def test_slow_reading_of_the_machine_keeps_at_most_some_connections(
    metrics: Paced, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, collect = threading.Event(), metrics.exporter.collect
    monkeypatch.setattr(metrics.exporter, "collect", lambda: go.wait(10) and collect())
    port, before = free_port(), threading.active_count()
    serve.start(metrics, str(port))
    with contextlib.ExitStack() as stack:
        for _ in range(serve.MOST + 2):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
            one.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        time.sleep(0.1)
        assert threading.active_count() - before <= 1 + serve.MOST
        go.set()
        assert "tier_node_bytes{" in get(port)[1]


def test_scrape_is_answered_although_many_clients_connect_meanwhile(
    metrics: Paced, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silent ones, and ones that have said half of a request."""
    go, asked, collect = threading.Event(), threading.Event(), metrics.exporter.collect

    def slow() -> list[Metric]:
        asked.set()
        assert go.wait(10)
        return collect()

    monkeypatch.setattr(metrics.exporter, "collect", slow)
    port = free_port()
    serve.start(metrics, str(port))
    with contextlib.ExitStack() as stack:
        place = ("127.0.0.1", port)
        scrape = stack.enter_context(socket.create_connection(place, 10))
        scrape.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert asked.wait(10)
        for number in range(3 * serve.MOST):
            idle = stack.enter_context(socket.create_connection(place, 10))
            idle.sendall(b"GET" * (number % 2))
        time.sleep(0.1)
        go.set()
        body = b"".join(iter(lambda: scrape.recv(1 << 16), b""))
    assert b" 200 " in body.splitlines()[0] and b"tier_node_bytes{" in body


def test_scrape_that_fails_is_an_error_and_the_next_one_may_succeed(
    metrics: Paced, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    serve.start(metrics, str(port))
    with monkeypatch.context() as patch:
        patch.setattr(metrics.exporter, "collect", lambda: 1 // 0)
        with pytest.raises(urllib.error.HTTPError, match="500"):
            get(port)
    assert "ZeroDivisionError" in capfd.readouterr().err
    assert "tier_node_bytes{" in get(port)[1]


def test_figures_are_taken_once_in_half_an_interval(tmp_path: Path) -> None:
    found, now = exporter(tmp_path), [100.0]
    assert isinstance(found.source, Stepping)
    paced = Paced(found, 20)
    paced.clock, paced.cpu = lambda: now[0], lambda: 0.0
    first = render(paced)
    count = found.source.reads["/proc/vmstat"]
    now[0] += 9.9
    assert render(paced) == first and found.source.reads["/proc/vmstat"] == count
    now[0] += 0.1
    render(paced)
    assert found.source.reads["/proc/vmstat"] == 2 * count


def test_costly_figures_are_taken_less_often(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now, spent = [0.0], iter(range(100))
    paced = Paced(exporter(tmp_path), 10)
    paced.clock, paced.cpu = lambda: now[0], lambda: next(spent) * 0.2
    for _ in range(2):
        paced.collect()
        now[0] += 10
    assert paced.pace.interval == 20
    assert "more than 1 % of a CPU" in capsys.readouterr().err


def test_pace_doubles_after_two_costly_readings_only() -> None:
    pace = Pace(10, 0.01)
    assert not pace.spent(0.2) and not pace.spent(0.01) and not pace.spent(0.2)
    assert pace.spent(0.2) and pace.interval == 20
    for _ in range(40):
        pace.spent(1e9)
    assert pace.interval == 3600 and not pace.spent(1e9)


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("9841", ("127.0.0.1", 9841)),
        (":9841", ("127.0.0.1", 9841)),
        ("0.0.0.0:9841", ("0.0.0.0", 9841)),
        ("[::1]:9841", ("::1", 9841)),
        ("host:1", ("host", 1)),
    ],
)
def test_address_is_local_unless_it_is_given(word: str, found: tuple[str, int]) -> None:
    assert serve.address(word) == found


@pytest.mark.parametrize("word", ["", "x", "x:", ":0", "1:2:3", "::1:1", "x:-1", "x:1e3", "x:٣"])
def test_address_without_a_port_is_refused(word: str) -> None:
    with pytest.raises(TierctlError) as found:
        serve.address(word)
    assert found.value.code == USAGE


def test_port_in_use_or_address_of_others_is_one_error(metrics: Paced) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        with pytest.raises(TierctlError, match="choose another port") as found:
            serve.start(metrics, f"127.0.0.1:{other.getsockname()[1]}")
        assert found.value.code == FINDING
    for word in ("192.0.2.1:19841", "a..b:1", f"{'x' * 70}.invalid:1"):
        with pytest.raises(TierctlError, match="address of this machine"):
            serve.start(metrics, word)


def test_port_ends_by_ctrl_c_and_takes_little_memory(tmp_path: Path) -> None:
    build(tmp_path, OURS)
    port = free_port()
    words = [sys.executable, "-m", "tierctl", "--root", str(tmp_path), "export", "--listen"]
    with subprocess.Popen([*words, str(port)], cwd=PROJECT, stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None and b"Ctrl-C ends" in process.stderr.readline()
            assert "tier_node_bytes{" in get(port)[1]
            status = Path(f"/proc/{process.pid}/status").read_text()
            os.kill(process.pid, signal.SIGINT)
            assert process.wait(10) == 0
        finally:
            process.kill()
    resident = int(status.partition("VmRSS:")[2].split()[0]) >> 10
    assert resident < 40  # MiB; the library takes about 12 of them
