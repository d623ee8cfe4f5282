"""Settlements interrupted by anything, at any step: none is reported as undone though it was committed, nor the other
way. Only the database knows what was committed, asked or not.

A verb is a statement, and the flow that settles one message or many; a source runs whatever statement it is given and
knows no verb. So not every pair is tried: each verb through one source, and through each source one verb of each flow.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool

from pgqueue import Message, QueueClient, ReceivedMessage, ReceiveState
from pgqueue.errors import CommitInDoubtError, PGQueueError, SendError
from pgqueue.flows.traced import PART
from pgqueue.testing import Database
from tests.contract.interpreter import meant
from tests.contract.interruption import AFTER, BEFORE, INTERRUPTIONS, AnyError, interruptions
from tests.contract.sources import WORKPLACES
from tests.contract.transactions import Transaction
from tests.contract.world import MINUTE, OWN, SHARED, World
from tests.patience import eventually

OPEN = (ReceiveState.COMPLETING, ReceiveState.ABANDONING)

SETTLE: dict[str, Callable[[Any, list[ReceivedMessage]], object]] = {
    "complete": lambda queue, received: received[0].complete(),
    "dead_letter": lambda queue, received: received[0].dead_letter("Bad"),
    "defer": lambda queue, received: received[0].defer(),
    "abandon": lambda queue, received: received[0].abandon(delay=MINUTE),
    "postpone": lambda queue, received: received[0].postpone(MINUTE),
    "complete_batch": lambda queue, received: queue.complete_batch(received),
    "abandon_batch": lambda queue, received: queue.abandon_batch(received, delay=MINUTE),
}

VERBS_AND_SOURCES = [
    (mode, verb) for mode in OWN for verb in SETTLE if mode.client == "dsn" or verb in ("complete", "abandon_batch")
]

VERBS_AND_CALLERS = [
    (mode, verb)
    for mode in SHARED
    for verb in ("complete", "complete_batch", "defer")
    if verb != "defer" or mode.caller in ("connection", "session")
]

#: Workplaces, and the completer of the message there: the library itself in all, the work in one of each kind.
COMPLETERS = [
    *((workplace, "the library") for workplace in WORKPLACES),
    *((workplace, "the work") for workplace in ("nothing", "session", "sqlalchemy connection")),
]

FINAL = (ReceiveState.COMPLETED, ReceiveState.ABANDONED)

however = pytest.mark.parametrize("how", ["cancelled", "set"])
when_it_comes = pytest.mark.parametrize("when", [BEFORE, AFTER])


@when_it_comes
@however
@pytest.mark.parametrize(("own", "verb"), VERBS_AND_SOURCES, indirect=["own"], ids=str)
def test_a_settlement_of_its_own(own: World, verb: str, how: str, when: str) -> None:
    with own.sources.fresh_client(own.mode.client) as client:
        queue = client.queue(own.name)
        for interruption in interruptions(INTERRUPTIONS[own.mode.face][how], when):
            queue.send_batch([Message(1), Message(2)])
            received = queue.receive(max_messages=2)
            with interruption.coming():
                SETTLE[verb](queue, received)
            for message in received:
                assert_that_it_is_known(own, message)


@when_it_comes
@however
@pytest.mark.parametrize(("workplace", "by"), COMPLETERS)
def test_the_end_of_a_transaction(either: World, workplace: str, by: str, how: str, when: str) -> None:
    with either.sources.fresh_client("dsn") as client:
        queue = client.queue(either.name)
        for interruption in interruptions(INTERRUPTIONS[either.mode.face][how], when):
            queue.send(Message(1))
            (received,) = queue.receive()
            label = str(received.sequence_number)
            with (
                suppress(Exception),
                either.sources.workplace(workplace) as source,
                interruption.coming(),
                received.transaction(source) as transaction,
            ):
                Transaction(transaction).execute(either.note(label))
                if by == "the work":
                    received.complete(transaction=transaction)
            assert_that_it_is_known(either, received)
            assert interruption.has_come or received.context.state is ReceiveState.COMPLETED
            assert (label in either.effects()) is (received.context.state is ReceiveState.COMPLETED)


@when_it_comes
@however
def test_process(either: World, workplace: str, how: str, when: str) -> None:
    with either.sources.fresh_client("dsn") as client:
        queue = client.queue(either.name)
        for interruption in interruptions(INTERRUPTIONS[either.mode.face][how], when):
            queue.send(Message(1))
            (received,) = queue.receive()
            label = str(received.sequence_number)

            with suppress(Exception), either.sources.workplace(workplace) as source, interruption.coming():
                either.sources.process(received, noting(either.note(label)), source)
            assert_that_it_is_known(either, received)
            assert interruption.has_come or received.context.state is ReceiveState.COMPLETED
            assert (label in either.effects()) is (received.context.state is ReceiveState.COMPLETED)


@when_it_comes
@however
@pytest.mark.parametrize(("caller", "verb"), VERBS_AND_CALLERS, indirect=["caller"], ids=str)
def test_a_settlement_in_the_callers_transaction(caller: World, verb: str, how: str, when: str) -> None:
    """The transaction goes on, if it can: what it commits is completed."""
    for interruption in interruptions(INTERRUPTIONS[caller.mode.face][how], when):
        received = caller.locked()
        with caller.transaction() as transaction:
            with interruption.coming():
                match verb:
                    case "complete":
                        received.complete(transaction=transaction.handle)
                    case "complete_batch":
                        caller.queue.complete_batch([received], transaction=transaction.handle)
                    case "defer":
                        received.defer(transaction=transaction.handle)
            assert received.resolve() in (ReceiveState.COMPLETING, ReceiveState.RECEIVED)
            with suppress(Exception):
                transaction.commit()
        assert_that_it_is_known(caller, received)


@when_it_comes
@however
def test_a_sender_that_is_interrupted_does_not_guess(either: World, how: str, when: str) -> None:
    """A message that it reports as not stored is not; one that it does not know of is in doubt."""
    error = INTERRUPTIONS["async" if how == "cancelled" and either.mode.face == "async" else "sync"][how]
    for at, interruption in enumerate(interruptions(error, when)):
        with either.sources.fresh_client("dsn") as client, interruption.coming(), suppress(SendError):
            outcome: object = None
            with client.queue(either.name).sender() as sender:
                try:
                    outcome = sender.send(Message(at)).result()
                except PGQueueError as failure:
                    outcome = failure
        if not isinstance(outcome, CommitInDoubtError):
            assert (at in either.bodies()) is not isinstance(outcome, PGQueueError)


@when_it_comes
@however
def test_many_bodies_of_one_call(own: World, how: str, when: str) -> None:
    """All are stored, or none, and the next call gets a connection that works."""
    with own.sources.fresh_client(own.mode.client) as client:
        queue = client.queue(own.name)
        for interruption in interruptions(INTERRUPTIONS[own.mode.face][how], when):
            with interruption.coming():
                queue.send_batch(map(Message, range(3 * PART)))
            queue.send(Message("next"))
            bodies = [message.body for message in queue.peek(max_messages=4 * PART)]
            assert bodies in (["next"], [*range(3 * PART), "next"])
            assert interruption.has_come or len(bodies) > 1
            client.purge_queue(own.name)


@when_it_comes
def test_a_pool_gets_its_connection_back_as_it_was(database: Database, when: str) -> None:
    with ConnectionPool(database.dsn, min_size=1, max_size=1, timeout=60) as pool, QueueClient(pool) as client:
        client.create_queue("q")
        for interruption in interruptions(AnyError, when):
            with interruption.coming():
                client.queue("q").send_batch(map(Message, range(2 * PART)))
            with pool.connection() as connection:
                assert not connection.autocommit
                assert connection.info.transaction_status == TransactionStatus.IDLE


@however
def test_a_pool_is_closed_with_its_client_even_if_its_opening_was_interrupted(either: World, how: str) -> None:
    for interruption in interruptions(INTERRUPTIONS[either.mode.face][how], AFTER):
        client = either.sources.made_of(either.database.dsn)
        with interruption.coming():
            client.list_queues()
        client.close()
        assert meant(client)._source._pool.closed


def test_an_interrupted_settlement_is_resolved_before_the_next_verb(own: World) -> None:
    with own.sources.fresh_client(own.mode.client) as client:
        queue = client.queue(own.name)
        for interruption in interruptions(INTERRUPTIONS[own.mode.face]["cancelled"], AFTER):
            queue.send(Message(1))
            (received,) = queue.receive()
            with interruption.coming():
                received.complete()
            if own.is_ours(received):
                received.complete()
            else:
                with pytest.raises(Exception, match="illegal once the delivery is completed"):
                    received.complete()


def test_an_interrupted_settlement_whose_lock_expired_meanwhile_is_in_doubt(own: World) -> None:
    """It may have been completed by this receiver or by the next one, which cannot be known."""
    with own.sources.fresh_client(own.mode.client) as client:
        queue = client.queue(own.name)
        for interruption in interruptions(INTERRUPTIONS[own.mode.face]["cancelled"], AFTER):
            queue.send(Message(1))
            (received,) = queue.receive()
            with interruption.coming():
                received.complete()
            known = received.context.state
            own.move_clock(2 * MINUTE)
            later = own.queue.receive()
            for message in later:
                message.complete()
            if known is ReceiveState.COMPLETING:
                assert received.resolve() is ReceiveState.FAULTED
            else:
                assert (known, later) == (ReceiveState.COMPLETED, [])
                assert received.resolve() is ReceiveState.COMPLETED


def noting(statement: str) -> Callable[[Any, Any], object]:
    return lambda message, transaction: Transaction(transaction).execute(statement)


def assert_that_it_is_known(world: World, received: ReceivedMessage) -> None:
    eventually(lambda: received.resolve() not in OPEN, "the server has not noticed yet that the client is gone")
    assert world.is_ours(received) is (received.state is ReceiveState.RECEIVED)
    assert received.state in (ReceiveState.RECEIVED, *FINAL)
