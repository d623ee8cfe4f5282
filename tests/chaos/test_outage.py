"""A server that is away for a while: who waits for a connection has one as soon as it is back."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import pgqueue.aio
from pgqueue import Message, QueueClient
from pgqueue.testing.database import create_template, created
from pgqueue.testing.server import ThrowawayServer
from tests.patience import eventually

#: More attempts than a pool makes that gives up after a while, and leaves those who wait to their patience.
MANY = 8


class Caller:
    """A client that sends once before the outage, and again during it."""

    def __init__(self, dsn: str, face: str) -> None:
        self.has_sent, self.go_on = threading.Event(), threading.Event()
        kind = QueueClient if face == "sync" else pgqueue.aio.QueueClient
        self.client: Any = kind(dsn, listen=False)
        own: Any = self.client._source
        self.pool = own._pool
        self.pool.timeout = 600  # seconds; it is the server that is waited for
        self.send = self.send_sync if face == "sync" else lambda: asyncio.run(self.send_async())

    def send_sync(self) -> None:
        with self.client:
            self.client.queue("q").send(Message("before"))
            self.has_sent.set()
            self.go_on.wait()
            self.client.queue("q").send(Message("during"))

    async def send_async(self) -> None:
        async with self.client:
            await self.client.queue("q").send(Message("before"))
            self.has_sent.set()
            await asyncio.to_thread(self.go_on.wait)
            await self.client.queue("q").send(Message("during"))

    def has_failed_often(self) -> bool:
        return int(self.pool.get_stats().get("connections_errors", 0)) >= MANY


@pytest.mark.parametrize("face", ["sync", "async"])
def test_a_call_that_waits_is_answered_when_the_server_is_back(
    throwaway_server: ThrowawayServer, face: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pgqueue.transports.connections.RECONNECTING_FOR", 0.1, raising=False)
    dsn = throwaway_server.dsn()
    with created(dsn, create_template(dsn)) as database, ThreadPoolExecutor(1) as threads:
        with QueueClient(database.dsn) as client:
            client.create_queue("q")
        caller = Caller(database.dsn, face)
        sending = threads.submit(caller.send)
        assert caller.has_sent.wait(300)
        throwaway_server.stop("immediate")
        caller.go_on.set()
        try:
            eventually(caller.has_failed_often)
        finally:
            throwaway_server.start()
        sending.result(300)
        with database.connect() as connection:
            assert connection.execute("select count(*) from pgqueue.message").fetchone() == (2,)
    own = [record for record in caplog.records if record.name == "pgqueue"]
    said = [record for record in own if record.levelno >= logging.WARNING]
    assert len(said) <= 1, "once an outage is enough"
