"""The password of a DSN is in no error, no traceback, no log and no repr."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

import pgqueue
from pgqueue import QueueClient, schema
from pgqueue.errors import PGQueueError
from pgqueue.testing import Database
from pgqueue.testing.database import dsn
from pgqueue.transports import connections

SECRET = "hunter2"

DSNS = {
    "unreadable": f"postgresql://user:{SECRET}@[host/name",
    "of another database": f"mysql://user:{SECRET}@localhost/name",
    "with a space": f"host=localhost password={SECRET} dbname",
    "of an unknown option": f"postgresql://user:{SECRET}@localhost/name?colour=red",
    "to nobody": f"postgresql://user:{SECRET}@localhost:1/name?connect_timeout=1",
}


async def asynchronous(given: str) -> None:
    async with pgqueue.aio.QueueClient(given) as client:
        await client.list_queues()


def synchronous(given: str) -> None:
    with QueueClient(given) as client:
        client.list_queues()


def waiting(given: str) -> None:
    with QueueClient(given) as client:
        client.queue("q").receive(wait=timedelta(seconds=1))


CALLS: dict[str, Callable[[str], object]] = {
    "client": synchronous,
    "waiting client": waiting,
    "asynchronous client": lambda given: asyncio.run(asynchronous(given)),
    "migrate": schema.migrate,
    "current": schema.current,
    "pending": schema.pending,
    "script": schema.script,
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("given", [name for name in DSNS if name != "to nobody"])
def test_a_dsn_that_cannot_be_read_is_not_shown(given: str, call: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(PGQueueError) as refusal:
        CALLS[call](DSNS[given])
    assert "DSN" in str(refusal.value)
    assert SECRET not in "".join(traceback.format_exception(refusal.value)) + repr(refusal.value) + caplog.text


@pytest.mark.parametrize("call", CALLS)
def test_the_error_for_an_unreachable_server_does_not_contain_the_password(
    call: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgqueue.transports.own_pool", partial(connections.own_pool, patience=0.3))
    with caplog.at_level(logging.DEBUG), pytest.raises(PGQueueError) as refusal:
        CALLS[call](DSNS["to nobody"])
    assert SECRET not in "".join(traceback.format_exception(refusal.value)) + repr(refusal.value) + caplog.text


def test_no_repr_shows_a_password(database: Database) -> None:
    given = f"{database.dsn}&password={SECRET}" if "?" in database.dsn else f"{database.dsn}?password={SECRET}"
    with QueueClient(given) as client:
        client.create_queue("orders")
        queue = client.queue("orders")
        queue.send(pgqueue.Message(1))
        (received,) = queue.receive()
        shown = [client, queue, received, received.context, client.get_queue("orders"), Database(given)]
        assert SECRET not in "".join(map(repr, shown)) + str(shown)
    assert SECRET in dsn(given, "another")
