"""Where a probe looks: a file that is touched while a worker is alive, or a port that answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pgqueue.worker.health import Health

Ask = Callable[[], Health]

TOUCHED_EVERY = 1.0


@contextmanager
def healthy_file(path: Path, ask: Ask) -> Iterator[None]:
    """Writes the health to a file every second while the worker is alive: an old file means a dead or stuck worker."""
    over = threading.Event()

    def write() -> None:
        while not over.is_set():
            health = ask()
            if health.is_alive:
                path.write_text(json.dumps(health.as_dict()) + "\n")
            over.wait(TOUCHED_EVERY)

    path.touch()
    thread = threading.Thread(target=write, name="pgqueue-health-file", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        path.unlink(missing_ok=True)


@contextmanager
def healthy_port(port: int, ask: Ask, host: str = "0.0.0.0") -> Iterator[int]:  # noqa: S104 - a probe comes from outside
    """Answers GET /health with 200, or 503 when a loop of the worker is stuck; port 0 takes any. Yields the port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            health = ask()
            found = self.path in ("/health", "/healthz")
            status = HTTPStatus.OK if health.is_alive else HTTPStatus.SERVICE_UNAVAILABLE
            body = json.dumps(health.as_dict() if found else {"error": "ask for /health"}).encode() + b"\n"
            self.send_response(status if found else HTTPStatus.NOT_FOUND)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """A probe that comes by is no news."""

    server = ThreadingHTTPServer((host, port), Answer)
    thread = threading.Thread(target=server.serve_forever, name="pgqueue-health-port", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
