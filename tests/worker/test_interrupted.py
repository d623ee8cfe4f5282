"""Transactions of a worker, shared or in a chain, are interrupted at each of their steps: no outcome is guessed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pgqueue import Message, QueueClient, ReceiveState, RetryPolicy
from pgqueue.flows import Flow
from pgqueue.flows.locked import LockedMessage
from pgqueue.flows.processing import Chain, Transactions
from pgqueue.testing import Database
from pgqueue.transports import drive, sized, transactions
from pgqueue.worker.execution import HandlerSpec, execute, execute_together
from pgqueue.worker.handler_threads import Inbox
from pgqueue.worker.handlers import Routes
from tests.contract.interruption import AFTER, BEFORE, INTERRUPTIONS, interruptions
from tests.contract.transactions import Transaction
from tests.patience import eventually

EFFECT = "create table effect (sequence_number bigint primary key)"

#: The second COMMIT fails, and no other.
FAILS_ONCE = """
    create sequence commits;
    create function fail_once() returns trigger language plpgsql security definer set search_path = public as $$
    begin
        if nextval('commits') = 2 then
            raise exception 'once' using errcode = 'serialization_failure';
        end if;
        return null;
    end
    $$;
    create constraint trigger fail_once after insert on effect deferrable initially deferred
        for each row execute function fail_once()
"""


def handle_in_a_chain(messages: Sequence[LockedMessage], task: HandlerSpec) -> Flow[None]:
    ahead = Inbox()
    ahead.put(messages)
    yield from handle_what_lies_ready(ahead, task)


def handle_what_lies_ready(ahead: Inbox, task: HandlerSpec) -> Flow[None]:
    assert task.transactions is not None
    chain = Chain(task.transactions.begin, ahead)
    try:
        while (message := chain.next or ahead.get_nowait()) is not None:
            yield from execute(message, replace(task, transactions=chain))
    finally:
        yield from chain.break_off()


@pytest.mark.parametrize("handle", [execute_together, handle_in_a_chain])
@pytest.mark.parametrize("kind", ["psycopg", "sqlalchemy"])
@pytest.mark.parametrize("when", [BEFORE, AFTER])
@pytest.mark.parametrize("how", INTERRUPTIONS["sync"])
@pytest.mark.parametrize("by", ["the library", "the handler"])
def test_transactions_of_several_messages(
    database: Database,
    kind: str,
    when: str,
    how: str,
    by: str,
    handle: Callable[[Sequence[LockedMessage], HandlerSpec], Flow[object]],
) -> None:
    def handler(message: Any, transaction: Any) -> None:
        Transaction(transaction).execute(f"insert into effect values ({message.sequence_number})")
        if by == "the handler":
            message.complete(transaction=transaction)

    with QueueClient(database.dsn) as client, database.connect(autocommit=True) as connection:
        connection.execute(EFFECT)
        client.create_queue("q")
        queue = client.queue("q")
        begin, close = transactions(kind, sized(client._source, 4, asynchronous=False), 4, asynchronous=False)
        assert begin is not None
        task = HandlerSpec(Routes.of_one("q", handler), Transactions(begin), RetryPolicy())
        states: dict[int, ReceiveState] = {}
        for interruption in interruptions(INTERRUPTIONS["sync"][how], when):
            queue.send_batch([Message(1), Message(2), Message(3)])
            received = queue.receive(max_messages=3)
            with interruption.coming():
                drive(handle(received, task))
            states = {message.sequence_number: settled(message) for message in received}
            left = {message.sequence_number for message in queue.peek(max_messages=1000)}
            effects = {number for (number,) in connection.execute("select sequence_number from effect").fetchall()}
            for number, state in states.items():
                assert (number in left) is (state is not ReceiveState.COMPLETED)
                assert (number in effects) is (state is ReceiveState.COMPLETED)
        assert set(states.values()) == {ReceiveState.COMPLETED}
        drive(close())


def settled(message: Any) -> ReceiveState:
    eventually(lambda: message.resolve() is not ReceiveState.COMPLETING)
    state: ReceiveState = message.state
    return state


@pytest.mark.core
def test_the_messages_after_a_failed_commit_in_a_chain_are_still_handled(database: Database) -> None:
    def handler(message: Any, transaction: Any) -> None:
        transaction.execute("insert into effect values (%s)", [message.sequence_number])

    with QueueClient(database.dsn) as client, database.connect(autocommit=True) as connection:
        connection.execute(EFFECT)
        connection.execute(FAILS_ONCE)
        client.create_queue("q")
        queue = client.queue("q")
        queue.send_batch([Message(number) for number in range(5)])
        received = queue.receive(max_messages=5)
        drive(
            handle_in_a_chain(
                received, HandlerSpec(Routes.of_one("q", handler), Transactions(client._source.begin), RetryPolicy())
            )
        )
        assert [message.state for message in received] == [ReceiveState.COMPLETED] * 5
        assert connection.execute("select count(*) from effect").fetchone() == (5,)
        assert connection.execute("select last_value from commits").fetchone() == (6,)


def test_the_messages_after_a_failed_commit_return_to_the_inbox(database: Database) -> None:
    def handler(message: Any, transaction: Any) -> None:
        ready.append(len(ahead))
        transaction.execute("insert into effect values (%s)", [message.sequence_number])

    ahead = Inbox()
    ready: list[int] = []
    with QueueClient(database.dsn) as client, database.connect(autocommit=True) as connection:
        connection.execute(EFFECT)
        connection.execute(FAILS_ONCE)
        client.create_queue("q")
        queue = client.queue("q")
        queue.send_batch([Message(number) for number in range(5)])
        ahead.put(queue.receive(max_messages=5))
        drive(
            handle_what_lies_ready(
                ahead, HandlerSpec(Routes.of_one("q", handler), Transactions(client._source.begin), RetryPolicy())
            )
        )
    assert ready == [4, 3, 3, 2, 1, 0]
