"""A handler is refused at the start where its annotation names the messages of the other face."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import pgqueue
import pgqueue.aio
import pgqueue.aio.testing
import pgqueue.testing
from pgqueue import Handlers, PeekedMessage
from pgqueue.errors import InvalidArgumentError

DSN = "postgresql://localhost/nowhere"


def takes_sync(message: pgqueue.ReceivedMessage) -> None:
    """Calls methods that return when they are done."""


def takes_sync_body(message: pgqueue.ReceivedMessage[int], tx: Any) -> None:
    """The same, with a body of a type."""


async def awaits_sync(message: pgqueue.ReceivedMessage) -> None:
    """A coroutine that would not await renew_lock()."""


async def awaits(message: pgqueue.aio.ReceivedMessage) -> None:
    """A coroutine that awaits them."""


async def awaits_body(message: pgqueue.aio.ReceivedMessage[int], tx: Any) -> None:
    """The same, with a body of a type."""


def takes_any(message: Any) -> None:
    """Any message."""


def takes_peeked(message: PeekedMessage) -> None:
    """Uses what all messages have."""


class Shop:
    def ship(self, message: pgqueue.ReceivedMessage) -> None:
        """A method."""


SYNC = [takes_sync, takes_sync_body, awaits_sync, Shop().ship, partial(takes_sync)]
ASYNC = [awaits, awaits_body]


def worker(module: Any, handler: Callable[..., Any], *, of_handlers: bool) -> None:
    client = module.QueueClient(DSN)
    if not of_handlers:
        module.Worker(client.queue("orders"), handler, transaction="psycopg")
        return
    app = Handlers()
    app.handler("orders")(handler)
    module.Worker(client, app, transaction="psycopg")


@pytest.mark.parametrize("of_handlers", [False, True], ids=["a handler", "handlers"])
@pytest.mark.parametrize(
    ("module", "handler"), [*((pgqueue.aio, each) for each in SYNC), *((pgqueue, each) for each in ASYNC)]
)
def test_a_worker_refuses_a_handler_of_the_other_face(module: Any, handler: Any, of_handlers: bool) -> None:
    with pytest.raises(InvalidArgumentError) as refusal:
        worker(module, handler, of_handlers=of_handlers)
    assert re.search(
        r"takes a pgqueue\S*ReceivedMessage, and gets a pgqueue\S*ReceivedMessage here", str(refusal.value)
    )


@pytest.mark.parametrize(
    ("module", "handler"),
    [
        (pgqueue, takes_sync),
        (pgqueue, awaits_sync),
        (pgqueue, takes_any),
        (pgqueue, takes_peeked),
        (pgqueue.aio, awaits),
    ],
)
def test_a_worker_takes_a_handler_of_its_own_face(module: Any, handler: Any) -> None:
    module.Worker(module.QueueClient(DSN).queue("orders"), handler)


def test_drain_refuses_a_handler_of_the_other_face() -> None:
    with pytest.raises(InvalidArgumentError, match=r"takes a pgqueue\.aio\.received\.ReceivedMessage"):
        pgqueue.testing.drain(pgqueue.QueueClient(DSN).queue("orders"), takes_async)  # type: ignore[arg-type]


async def test_an_asynchronous_drain_refuses_a_handler_of_the_other_face() -> None:
    with pytest.raises(InvalidArgumentError, match=r"takes a pgqueue\.received\.ReceivedMessage"):
        await pgqueue.aio.testing.drain(pgqueue.aio.QueueClient(DSN).queue("orders"), takes_sync)  # type: ignore[arg-type]


def takes_async(message: pgqueue.aio.ReceivedMessage) -> None:
    """A plain function that is annotated with the asynchronous class."""
