"""Verbs in a read-only transaction are refused at once, without retries, which would not help."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from pgqueue import Message, ReceiveState
from pgqueue.errors import ReadOnlyError, TransactionRequiredError
from tests.contract.transactions import Transaction
from tests.contract.world import World

VERBS: dict[str, Callable[..., object]] = {
    "send": lambda world, received, **given: world.queue.send(Message("more"), **given),
    "receive_and_delete": lambda world, received, **given: world.queue.receive_and_delete(**given),
    "complete": lambda world, received, **given: received.complete(**given),
    "complete_batch": lambda world, received, **given: world.queue.complete_batch([received], **given),
    "abandon": lambda world, received, **given: received.abandon(**given),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_transaction_that_may_only_read_is_refused(caller: World, verb: str) -> None:
    received = caller.locked()
    caller.send("another")
    with caller.transaction() as transaction:
        transaction.execute("set transaction read only")
        with pytest.raises(ReadOnlyError, match="READ ONLY") as refused:
            VERBS[verb](caller, received, transaction=transaction.handle)
        assert (refused.value.is_transient, refused.value.sqlstate) == (False, "25006")
        transaction.rollback()
    assert received.resolve() is ReceiveState.RECEIVED
    assert caller.is_ours(received)


def test_work_in_a_transaction_that_may_only_read_is_done_once(either: World, workplace: str) -> None:
    received = either.locked()
    done: list[int] = []

    def work(message: Any, transaction: Any) -> None:
        done.append(1)
        Transaction(transaction).execute("set transaction read only")

    with either.forgiving(), either.sources.workplace(workplace) as source, pytest.raises(ReadOnlyError):
        either.sources.process(received, work, source)
    assert done == [1]


def test_a_database_that_may_only_be_read_is_no_lost_connection(either: World) -> None:
    dsn = psycopg.conninfo.make_conninfo(either.database.direct, options="-c default_transaction_read_only=on")
    client = either.sources.made_of(dsn)
    try:
        with pytest.raises(ReadOnlyError, match="default_transaction_read_only") as refused:
            client.queue(either.name).send(Message(1))
        assert not refused.value.is_transient
    finally:
        client.close()


def test_a_verb_in_a_failed_transaction_asks_for_a_rollback(caller: World) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        with suppress(Exception):
            transaction.execute("select 1 / 0")
        with pytest.raises(TransactionRequiredError, match="roll it back") as refused:
            received.complete(transaction=transaction.handle)
        assert not refused.value.is_transient
        transaction.rollback()
    assert received.resolve() is ReceiveState.RECEIVED
