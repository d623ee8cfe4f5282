"""Exceptions that another thread sets in this one, earlier and later: at any time, outcomes are known, not guessed."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from pgqueue import Message, QueueClient, ReceivedMessage, ReceiveState, process
from pgqueue.flows.traced import PART
from pgqueue.testing import Database
from tests.contract.sources import CLIENTS, FACES
from tests.patience import eventually

TIMES = 60
#: How much later each comes than the one before it.
LATER = 50e-6


#: Before a row is looked at, so that the server holds none while it waits here.
GATE = """
create function wait_at_the_gate() returns trigger language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared(1);
    return null;
end
$$;
create trigger gate before insert or delete on pgqueue.message execute function wait_at_the_gate();
"""

OTHERS_AT_WORK = """
select from pg_stat_activity
 where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid() and state = 'active'
"""

BLOCKED = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


class SetError(Exception):
    """The exception that the other thread sets."""


def in_transaction(queue: Any, received: ReceivedMessage) -> None:
    with received.transaction():
        pass


CALLS: dict[str, Callable[[Any, ReceivedMessage], object]] = {
    "complete": lambda queue, received: received.complete(),
    "complete_batch": lambda queue, received: queue.complete_batch([received]),
    "transaction": in_transaction,
    "process": lambda queue, received: process(received, lambda message: None),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("call", CALLS)
def test_an_exception_of_another_thread_leaves_no_wrong_answer(database: Database, call: str) -> None:
    with QueueClient(database.dsn) as owner, database.connect(autocommit=True) as connection:
        owner.create_queue("q")
        for after in range(TIMES):
            with QueueClient(database.dsn) as client:
                queue = client.queue("q")
                queue.send_batch([Message(1), Message(2)])
                first, received = queue.receive(max_messages=2)
                with first.transaction():  # opens the pools: psycopg's may keep its lock when that is interrupted
                    pass
                _interrupted(lambda: CALLS[call](queue, received), after * LATER)  # noqa: B023 - it is called here
                state = _settled(received)
            there = connection.execute("select from pgqueue.message where lock_token = %s", [received.lock_token])
            assert (state is ReceiveState.RECEIVED) is bool(there.fetchall())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("face", FACES)
def test_a_statement_that_is_interrupted_is_over_before_anybody_asks(
    database: Database, face: str, client: str
) -> None:
    """A statement still running would later change a message that was reported as received."""
    with (
        closing(FACES[face](database)) as sources,
        sources.fresh_client(client) as made,
        database.connect(autocommit=True) as gatekeeper,
    ):
        made.create_queue("q")
        queue = made.queue("q")
        queue.send(Message(1))
        (received,) = queue.receive()
        gatekeeper.execute(GATE)
        gatekeeper.execute("select pg_advisory_lock(1)")
        with _interrupting(lambda: queue.complete_batch([received])):
            eventually(lambda: gatekeeper.execute(BLOCKED).fetchall())
        state = received.resolve()
        gatekeeper.execute("select pg_advisory_unlock(1)")
        eventually(lambda: not gatekeeper.execute(OTHERS_AT_WORK).fetchall())
        there = gatekeeper.execute("select from pgqueue.message where lock_token = %s", [received.lock_token])
        assert there.fetchall()
        assert state is ReceiveState.RECEIVED


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("face", FACES)
def test_parts_of_a_batch_that_is_interrupted_are_not_stored_later(database: Database, face: str, client: str) -> None:
    """Its COMMIT waits for them. They are few: a server that could not send their answers would end by itself."""
    with (
        closing(FACES[face](database)) as sources,
        sources.fresh_client(client) as made,
        database.connect(autocommit=True) as gatekeeper,
    ):
        made.create_queue("q")
        gatekeeper.execute(GATE)
        gatekeeper.execute("select pg_advisory_lock(1)")
        with _interrupting(lambda: made.queue("q").send_batch(map(Message, range(2 * PART)))) as raised:
            eventually(lambda: gatekeeper.execute(BLOCKED).fetchall())
        assert [type(error) for error in raised] == [SetError]
        gatekeeper.execute("select pg_advisory_unlock(1)")
        eventually(lambda: not gatekeeper.execute(OTHERS_AT_WORK).fetchall())
        assert made.queue("q").peek() == []


def test_a_connection_that_was_given_goes_on_after_a_statement_that_was_interrupted(database: Database) -> None:
    with (
        QueueClient(database.dsn) as client,
        database.connect() as given,
        database.connect() as other,
        database.connect(autocommit=True) as observer,
    ):
        client.create_queue("q")
        queue = client.queue("q")
        queue.send(Message(1))
        (received,) = queue.receive()
        other.execute("select from pgqueue.message for update")
        with _interrupting(lambda: received.transaction(given).__enter__()):
            eventually(lambda: observer.execute(BLOCKED).fetchall())
        assert given.info.transaction_status == TransactionStatus.IDLE
        other.rollback()
        with received.transaction(given):
            pass
        assert received.state is ReceiveState.COMPLETED


@contextmanager
def _interrupting(call: Callable[[], object]) -> Iterator[list[Exception]]:
    """Calls in a thread, where an error is raised at the end of the block, while psycopg waits for an answer.

    Yields a list that then holds what the call has raised.
    """
    raised: list[Exception] = []
    now = threading.Event()

    def interrupted(waiting: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        try:
            step = next(waiting)
            while not now.is_set():
                step = waiting.send((yield step))
        except StopIteration as end:
            return end.value
        now.clear()
        return waiting.throw(SetError)

    with pytest.MonkeyPatch.context() as patch:
        for kind in (psycopg.Connection, psycopg.AsyncConnection):
            wait: Any = kind.wait
            patch.setattr(kind, "wait", lambda self, waiting, wait=wait, **how: wait(self, interrupted(waiting), **how))
        thread = _started(call, raised)
        yield raised
        now.set()
        thread.join()
    assert not now.is_set()


def _interrupted(call: Callable[[], object], seconds: float) -> None:
    thread = _started(call, [])
    until = time.perf_counter() + seconds
    while time.perf_counter() < until and thread.is_alive():
        pass
    _set(thread)
    thread.join()


def _started(call: Callable[[], object], raised: list[Exception]) -> threading.Thread:
    began = threading.Event()

    def run() -> None:
        try:
            began.set()
            call()
        except Exception as error:  # noqa: BLE001 - the caller looks at it
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    began.wait()
    return thread


def _set(thread: threading.Thread) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SetError))


def _settled(received: ReceivedMessage) -> ReceiveState:
    eventually(lambda: received.resolve() not in (ReceiveState.COMPLETING, ReceiveState.ABANDONING))
    return received.state
