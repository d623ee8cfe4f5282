"""A stand-in for Docker's engine: the part of its API that testcontainers uses, at a Unix socket.

A container is a server of the embedded PostgreSQL with the role and database of its environment; its published port is
forwarded to that server's socket.
"""

from __future__ import annotations

import json
import re
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingMixIn, ThreadingTCPServer, UnixStreamServer
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import psycopg
from psycopg import sql

from pgqueue.embedded.server import SOCKET
from pgqueue.testing import ThrowawayServer
from pgqueue.testing.hosts import binaries

VERSION = {"Version": "27.0.0", "ApiVersion": "1.46", "MinAPIVersion": "1.24"}
Answer = tuple[int, Any]


class Container:
    """An engine's record of a container of PostgreSQL."""

    def __init__(self, created: dict[str, Any]) -> None:
        self.id = uuid.uuid4().hex
        self.image: str = created["Image"]
        self.command: list[str] = created["Cmd"]
        self.status = "created"
        self._environment = dict(each.split("=", 1) for each in created["Env"])
        self._exposed = list(created["ExposedPorts"])
        self._server = ThrowawayServer(binaries())
        self._port: _Port | None = None

    def start(self) -> None:
        self._server.create()
        self._server.start()
        user, password, database = (self._environment[f"POSTGRES_{name}"] for name in ("USER", "PASSWORD", "DB"))
        with psycopg.connect(self._server.dsn(), autocommit=True) as connection:
            role = sql.SQL("create role {} superuser login password {}")
            connection.execute(role.format(sql.Identifier(user), sql.Literal(password)))
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(database)))
        self._port = _Port(self._server.sockets / SOCKET)
        Thread(target=self._port.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.status = "running"

    def answers(self) -> bool:
        """Whether its role reaches its database: what testcontainers runs psql in the container for."""
        user, database = self._environment["POSTGRES_USER"], self._environment["POSTGRES_DB"]
        with psycopg.connect(self._server.dsn(database), user=user) as connection:
            return connection.execute("select 1").fetchone() == (1,)

    def inspected(self) -> dict[str, Any]:
        published = self._port and [{"HostIp": "127.0.0.1", "HostPort": str(self._port.server_address[1])}]
        return {
            "Id": self.id,
            "State": {"Status": self.status},
            "NetworkSettings": {"Ports": dict.fromkeys(self._exposed, published)},
        }

    def remove(self) -> None:
        if self._port is not None:
            self._port.shutdown()
            self._port.server_close()
        self._server.remove()


class _Port(ThreadingTCPServer):
    """A free port of this machine that is forwarded to a Unix socket."""

    daemon_threads = True

    def __init__(self, target: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Forwarding)
        self.target = target


class _Forwarding(BaseRequestHandler):
    server: _Port

    def handle(self) -> None:
        with socket.socket(socket.AF_UNIX) as target:
            target.connect(str(self.server.target))
            back = Thread(target=_forward, args=(target, self.request), daemon=True)
            back.start()
            _forward(self.request, target)
            back.join()


def _forward(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while read := source.recv(65536):
            target.sendall(read)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


class Engine:
    """Answers the requests of testcontainers; ``log`` holds what was asked for, and how it was answered."""

    def __init__(self, *, refusal: str | None = None) -> None:
        self.images: set[str] = set()
        self.containers: dict[str, Container] = {}
        self.created: list[Container] = []
        self.log: list[tuple[str, int]] = []
        self._refusal = refusal

    def answer(self, method: str, target: str, body: Any) -> Answer:
        path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
        request = f"{method} {re.sub(r'^/v[0-9.]+', '', path)}"
        status, given = self._answer(request, query, body)
        self.log.append((re.sub("[0-9a-f]{32}", "ID", request), status))
        return status, given

    def _answer(self, request: str, query: dict[str, list[str]], body: Any) -> Answer:
        for pattern, verb in self.ROUTES.items():
            if found := re.fullmatch(pattern, request):
                if "containers/(" in pattern and found[1] not in self.containers:
                    return 404, {"message": f"No such container: {found[1]}"}
                return verb(self, query, body, *found.groups())
        return 501, {"message": f"the stand-in knows no {request}"}

    def _version(self, query: Any, body: Any) -> Answer:
        return 200, VERSION

    def _image(self, query: Any, body: Any, name: str) -> Answer:
        return (200, {"Id": name}) if name in self.images else (404, {"message": f"No such image: {name}"})

    def _pull(self, query: dict[str, list[str]], body: Any) -> Answer:
        self.images.add(f"{query['fromImage'][0]}:{query['tag'][0]}")
        return 200, {"status": "Download complete"}

    def _create(self, query: Any, body: dict[str, Any]) -> Answer:
        container = Container(body)
        self.created.append(container)
        self.containers[container.id] = container
        return 201, {"Id": container.id, "Warnings": []}

    def _inspect(self, query: Any, body: Any, container: str) -> Answer:
        return 200, self.containers[container].inspected()

    def _start(self, query: Any, body: Any, container: str) -> Answer:
        if self._refusal is not None:
            return 500, {"message": self._refusal}
        self.containers[container].start()
        return 204, None

    def _exec(self, query: Any, body: Any, container: str) -> Answer:
        return 201, {"Id": container}

    def _exec_start(self, query: Any, body: Any, container: str) -> Answer:
        return 200, None

    def _exec_inspect(self, query: Any, body: Any, container: str) -> Answer:
        return 200, {"ExitCode": 0 if self.containers[container].answers() else 1}

    def _remove(self, query: dict[str, list[str]], body: Any, container: str) -> Answer:
        assert (query["force"], query["v"]) == (["True"], ["True"]), "its volumes would be left"
        self.containers.pop(container).remove()
        return 204, None

    ROUTES: ClassVar[dict[str, Callable[..., Answer]]] = {
        "GET /version": _version,
        "GET /images/(.+)/json": _image,
        "POST /images/create": _pull,
        "POST /containers/create": _create,
        "GET /containers/([^/]+)/json": _inspect,
        "POST /containers/([^/]+)/start": _start,
        "POST /containers/([^/]+)/exec": _exec,
        "POST /exec/([^/]+)/start": _exec_start,
        "GET /exec/([^/]+)/json": _exec_inspect,
        "DELETE /containers/([^/]+)": _remove,
    }


class _Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Socket

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        status, given = self.server.engine.answer(self.command, self.path, body)
        content = b"" if given is None else json.dumps(given).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = _serve  # noqa: N815 (http.server's names)

    def log_message(self, *_: object) -> None:
        """The engine has a log of its own."""


class _Socket(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True

    def __init__(self, path: Path, engine: Engine) -> None:
        super().__init__(str(path), _Requests)
        self.engine = engine


@contextmanager
def listening(engine: Engine, path: Path) -> Iterator[str]:
    """Serve the engine's API at this socket, and remove its containers at the end; yields the value of DOCKER_HOST."""
    with _Socket(path, engine) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"unix://{path}"
        finally:
            server.shutdown()
            thread.join()
            for container in engine.containers.values():
                container.remove()
