# SPDX-License-Identifier: GPL-2.0
"""The port of `tierctl export --listen`."""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
import time
from socketserver import ThreadingMixIn
from typing import Any, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import make_wsgi_app
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tierctl.core.errors import DENIED, FINDING, TierctlError
from tierctl.core.pace import Pace, say
from tierctl.export.metrics import Exporter, registry

PATIENCE_S = 5.0  # that a client may be silent
MOST = 8  # connections
SHARE = 0.01  # of one CPU


def address(word: str) -> tuple[str, int]:
    """Host and port of [HOST:]PORT; the host is localhost unless it is given."""
    host, _, port = word.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise TierctlError(f"{word!r} is no address", "write [ADDRESS]:PORT for IPv6")
    if not (port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536):
        raise TierctlError(f"{word!r} has no port from 1 to 65535", "write HOST:PORT")
    return host or "127.0.0.1", int(port)


class Paced(Collector):
    """Metrics that are taken at most once in half an interval, whoever asks."""

    def __init__(self, exporter: Exporter, interval_s: float) -> None:
        self.exporter, self.clock, self.cpu = exporter, time.monotonic, time.process_time
        self.pace = Pace(interval_s, SHARE)
        self._lock = threading.Lock()
        self._taken: float | None = None
        self._metrics: list[Metric] = []

    def collect(self) -> list[Metric]:
        """The metrics; an exporter that fails is asked again by the next scrape."""
        with self._lock:
            now = self.clock()
            if self._taken is None or now - self._taken >= self.pace.interval / 2:
                began = self.cpu()
                self._metrics, self._taken = self.exporter.collect(), now
                if self.pace.spent(self.cpu() - began):
                    age = f"figures are up to {self.pace.interval / 2:.0f} s old now"
                    say(f"a reading costs more than 1 % of a CPU: {age}")
            return self._metrics


class _Handler(WSGIRequestHandler):
    timeout = PATIENCE_S

    def parse_request(self) -> bool:
        """The request has come, so this connection makes no room for others."""
        found = super().parse_request()
        cast("_Server", self.server).silent.remove(self.connection)
        return found

    def log_message(self, format: str, *args: Any) -> None:
        """Log no request."""


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each connection.  Beyond MOST the oldest one without a request makes room: it
    reads no more, and ends, or answers a request that has come meanwhile."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, *args: Any) -> None:
        self._room, self.silent = threading.Semaphore(MOST), list[Any]()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            with contextlib.suppress(OSError, IndexError):
                self.silent[0].shutdown(socket.SHUT_RD)
            self._room.acquire()
        self.silent.append(request)
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Be quiet: the client was silent, or has gone.  wsgiref tells of a reading that fails."""

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with contextlib.suppress(ValueError):
            self.silent.remove(request)
        self._room.release()


def start(metrics: Paced, word: str) -> str:
    """Answer on a port, in threads; the address."""
    host, port = address(word)
    try:
        family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        kind = type("_Server", (_Server,), {"address_family": family})
        app = make_wsgi_app(registry(metrics))
        server: WSGIServer = make_server(str(place[0]), port, app, kind, _Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    except (socket.gaierror, UnicodeError) as error:
        what = f"{host!r} has no address: {getattr(error, 'strerror', error)}"
        raise TierctlError(what, "give an address of this machine") from None
    except OSError as error:
        denied = error.errno in (errno.EACCES, errno.EPERM)
        other = denied or error.errno == errno.EADDRINUSE
        todo = "choose another port" if other else "give an address of this machine"
        what = f"{word} cannot be listened on: {error.strerror}"
        raise TierctlError(what, todo, DENIED if denied else FINDING) from None
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def serve(metrics: Paced, word: str) -> int:
    """Answer until Ctrl-C or SIGTERM."""
    say(f"metrics at http://{start(metrics, word)}/metrics, Ctrl-C ends")
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()
    return 0
