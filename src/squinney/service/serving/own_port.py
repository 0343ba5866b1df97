"""Health and metrics of one process on a port of its own: for a worker, and for each of several that share a port."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from squinney.errors import Invalid
from squinney.service.health import readiness
from squinney.system import Assembled

SECONDS = 10.0  # for a caller to send its request


@contextmanager
def own_port(
    host: str,
    port: int | None,
    registry: CollectorRegistry,
    systems: Assembled,
    *,
    draining: Callable[[], bool] = lambda: False,
) -> Iterator[int | None]:
    """Answer `/healthz`, `/readyz` and `/metrics` on the port, in threads of this process; without a port do nothing.

    Raises: `Invalid` if the port is taken.
    """
    if port is None:
        yield None
        return

    class Handler(BaseHTTPRequestHandler):
        timeout = SECONDS

        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, CONTENT_TYPE_LATEST, generate_latest(registry))
            elif self.path in ("/healthz", "/readyz"):
                state, status = ({"status": "ok"}, 200)
                if self.path == "/readyz":
                    state, status = readiness(systems, draining=draining())
                self._answer(status, "application/json", json.dumps(state).encode())
            else:
                self._answer(404, "text/plain", b"not found")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: probes come every few seconds."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise Invalid(
            f"cannot listen on {host}:{port} for health and metrics ({error.strerror})", field="port"
        ) from None
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="squinney-metrics", daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
