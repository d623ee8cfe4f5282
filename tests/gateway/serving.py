"""Gateways for tests, each in a thread of the test's process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from pgqueue.gateway.gateway import Gateway
from pgqueue.gateway.keys import derived
from pgqueue.gateway.server import serving
from pgqueue.gateway.settings import Settings
from pgqueue.testing import Database

ANYWHERE = ("127.0.0.1", 0)


@dataclass
class Served:
    """A gateway that serves."""

    database: Database
    gateway: Gateway
    loop: asyncio.AbstractEventLoop
    address: tuple[str, int]

    def connection_string(self, key: str = "shop", *, entity: str | None = None) -> str:
        host, port = self.address
        path = "" if entity is None else f";EntityPath={entity}"
        return (
            f"Endpoint=sb://{host}:{port};SharedAccessKeyName={key};SharedAccessKey={key_of(self.database, key)}"
            f";UseDevelopmentEmulator=true{path}"
        )

    def call(self, work: Any) -> Any:
        """Run a coroutine of the gateway's."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)


def key_of(database: Database, name: str) -> str:
    with psycopg.connect(database.dsn) as connection:
        ((salt,),) = connection.execute("select salt from pgqueue.gateway_keys() where name = %s", [name]).fetchall()
    return derived(b"", name, bytes(salt))


@contextmanager
def served(database: Database, **settings: Any) -> Iterator[Served]:
    """A gateway that serves in the block."""
    is_ready, stopping = threading.Event(), asyncio.Event()
    found: list[Served | BaseException] = []

    async def serve() -> None:
        chosen = {"listen": ANYWHERE, **settings}
        async with serving(Settings(database.dsn, **chosen)) as (gateway, address):
            found.append(Served(database, gateway, asyncio.get_running_loop(), address))
            is_ready.set()
            await stopping.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            found.append(error)
            is_ready.set()
            raise

    thread = threading.Thread(target=run, name="gateway")
    thread.start()
    is_ready.wait(60)
    (one,) = found
    if isinstance(one, BaseException):
        raise one
    try:
        yield one
    finally:
        one.loop.call_soon_threadsafe(stopping.set)
        thread.join(60)
        assert not thread.is_alive(), "the gateway did not stop"
