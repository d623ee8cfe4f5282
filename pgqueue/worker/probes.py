"""Health for probes: a file that is written while a worker is alive, or a port that answers HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pgqueue.errors import logger
from pgqueue.worker.health import Health

Ask = Callable[[], Health]
Scrape = Callable[[], bytes]

#: The text format of Prometheus.
EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"
REMEDY = b"metrics need the extra otel: pip install 'pgqueue-tx[otel]'\n"

TOUCHED_EVERY = 1.0


@dataclass(frozen=True)
class Reply:
    """The response to a probe."""

    status: HTTPStatus
    body: bytes
    content_type: str = "application/json"


@contextmanager
def healthy_file(path: Path, ask: Ask) -> Iterator[None]:
    """Write the health to a file every second while the worker is alive: an old file means a dead or stuck worker."""
    over = threading.Event()

    def write() -> None:
        while not over.is_set():
            health = ask()
            try:
                if health.is_alive:
                    path.write_text(json.dumps(health.as_dict()) + "\n")
            except OSError as error:
                logger.warning("the health file could not be written, it is tried again: %s", error)
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
def healthy_port(
    port: int,
    ask: Ask,
    scrape: Scrape | None = None,
    host: str = "0.0.0.0",  # noqa: S104 - a probe comes from outside
) -> Iterator[int]:
    """Answer GET /health with 200, or 503 if a loop of the worker is stuck. Port 0 takes any free port; yield the port.

    GET /metrics returns the result of ``scrape``, or 501 if the library for it is missing.
    """

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/health" | "/healthz":
                    reply = _told(ask())
                case "/metrics" if scrape is not None:
                    reply = _scraped(scrape)
                case _:
                    reply = Reply(HTTPStatus.NOT_FOUND, _json({"error": "ask for /health or /metrics"}))
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.content_type)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *_: object) -> None:
            """Do not log requests of probes."""

    server = ThreadingHTTPServer((host, port), Answer)
    thread = threading.Thread(target=server.serve_forever, name="pgqueue-health-port", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _told(health: Health) -> Reply:
    return Reply(HTTPStatus.OK if health.is_alive else HTTPStatus.SERVICE_UNAVAILABLE, _json(health.as_dict()))


def _scraped(scrape: Scrape) -> Reply:
    try:
        return Reply(HTTPStatus.OK, scrape(), EXPOSITION)
    except ImportError:
        return Reply(HTTPStatus.NOT_IMPLEMENTED, REMEDY, "text/plain; charset=utf-8")


def _json(document: dict[str, object]) -> bytes:
    return json.dumps(document).encode() + b"\n"
