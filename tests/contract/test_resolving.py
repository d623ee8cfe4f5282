"""The outcome of a settlement whose transaction is out of sight: the library asks the database."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import psycopg
import psycopg_pool
import pytest

import pgqueue
from pgqueue import Message, QueueClient, ReceivedMessage, ReceiveState
from pgqueue.errors import MessageAlreadySettledError
from pgqueue.testing import Database
from tests.contract.transactions import execute
from tests.contract.world import World

#: Texts of drivers whose session has ended, the last behind PgBouncer.
DIED = r"terminat|closed|lost|reconnect|received 2 results from command 'COMMIT'"


def test_where_no_transaction_is_in_question_nothing_changes(either: World) -> None:
    received, completed, abandoned, faulted = either.several_locked(4)
    completed.complete()
    abandoned.abandon()
    faulted.fault()
    states = [message.resolve() for message in (received, completed, abandoned, faulted)]
    assert states == [ReceiveState.RECEIVED, ReceiveState.COMPLETED, ReceiveState.ABANDONED, ReceiveState.FAULTED]


@pytest.mark.parametrize("verb", ["complete", "dead_letter"])
def test_a_transaction_is_in_progress_until_it_is_not(caller: World, verb: str) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        if verb == "complete":
            received.complete(transaction=transaction.handle)
        else:
            received.dead_letter("Bad", transaction=transaction.handle)
        assert received.resolve() is ReceiveState.COMPLETING
        transaction.commit()
        assert received.resolve() is ReceiveState.COMPLETED
    assert received.resolve() is ReceiveState.COMPLETED


def test_a_transaction_that_has_failed_is_undone_whether_it_was_rolled_back_yet_or_not(caller: World) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        with suppress(Exception):
            transaction.execute("select 1 / 0")
        assert received.resolve() is ReceiveState.RECEIVED
        transaction.rollback()
    assert received.resolve() is ReceiveState.RECEIVED
    assert caller.is_ours(received)


def test_a_message_settled_again_does_not_depend_on_the_end_of_its_last_transaction(caller: World) -> None:
    received = caller.locked()
    with caller.transaction() as failed, caller.transaction() as transaction:
        received.complete(transaction=failed.handle)
        with suppress(Exception):
            failed.execute("select 1 / 0")
        received.complete(transaction=transaction.handle)
        failed.rollback()
        assert received.context.state is ReceiveState.COMPLETING
        transaction.commit()
    assert received.resolve() is ReceiveState.COMPLETED
    assert caller.found() == []


def test_a_connection_that_died_before_the_commit_took_the_settlement_with_it(caller: World) -> None:
    received = caller.locked()
    resolved: list[ReceiveState] = []
    with caller.forgiving(), caller.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        caller.terminate(transaction)
        resolved.append(received.resolve())
        with pytest.raises(Exception, match=DIED):
            transaction.commit()
    assert resolved == [ReceiveState.RECEIVED]
    assert received.resolve() is ReceiveState.RECEIVED
    assert caller.is_ours(received)


def test_a_session_that_the_server_has_ended_is_not_asked_and_its_commit_still_fails(caller: World) -> None:
    """psycopg ends a block on a connection that knows to be broken as if all were well."""
    received = caller.locked()
    known: list[ReceiveState] = []
    with caller.forgiving(), caller.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        caller.terminate(transaction)
        known.append(received.state)
        with pytest.raises(Exception, match=DIED):
            transaction.commit()
    assert known == [ReceiveState.RECEIVED if caller.mode.face == "sync" else ReceiveState.COMPLETING]
    assert caller.is_ours(received)


def test_a_connection_that_died_after_the_commit_leaves_no_doubt(caller: World) -> None:
    received = caller.locked()
    with suppress(Exception), caller.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        ((process,),) = transaction.execute("select pg_backend_pid()")
        transaction.commit()
        caller.look("select pg_terminate_backend(%s, 5000)", process)
    assert received.resolve() is ReceiveState.COMPLETED
    assert caller.found() == []


def test_a_settlement_undone_behind_our_back_is_found_out(caller: World) -> None:
    """SQL text emits no event; the message that is still there reveals the rollback."""
    received = caller.locked()
    with caller.transaction() as transaction:
        transaction.execute("savepoint hidden")
        received.complete(transaction=transaction.handle)
        transaction.execute("rollback to savepoint hidden")
        assert received.resolve() is ReceiveState.RECEIVED
        transaction.commit()
    assert received.resolve() is ReceiveState.RECEIVED
    assert caller.is_ours(received)


def test_a_transaction_that_is_asked_in_vain_is_asked_again(caller: World) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        transaction.commit()
    with pytest.raises(MessageAlreadySettledError):
        received.abandon()
    assert received.state is ReceiveState.COMPLETED


def test_a_connection_that_its_pool_has_lent_to_another_is_not_asked(database: Database) -> None:
    with psycopg_pool.ConnectionPool(database.dsn, min_size=1, max_size=1) as pool, QueueClient(database.dsn) as client:
        client.create_queue("orders")
        queue = client.queue("orders")
        queue.send(Message(1))
        (received,) = queue.receive()
        with pool.connection() as connection:
            received.complete(transaction=connection)
        with pool.connection() as connection:
            connection.execute("set local role pg_monitor")  # which has no right in pgqueue
            assert received.resolve() is ReceiveState.COMPLETED
            assert connection.execute("select 1").fetchone() == (1,)


def test_a_settlement_that_a_savepoint_has_undone_takes_no_second_connection(database: Database) -> None:
    with psycopg_pool.ConnectionPool(database.dsn, min_size=1, max_size=1) as pool, QueueClient(pool) as client:
        client.create_queue("orders")
        queue = client.queue("orders")
        queue.send(Message(1))
        (received,) = queue.receive()
        with pool.connection(timeout=10) as connection, connection.transaction():
            with suppress(ZeroDivisionError), connection.transaction():
                received.complete(transaction=connection)
                raise ZeroDivisionError
            with pgqueue.deadline(timedelta(seconds=10)):
                assert received.resolve() is ReceiveState.RECEIVED
                received.complete(transaction=connection)
        assert received.state is ReceiveState.COMPLETED


def test_a_pool_whose_sessions_the_server_has_ended_answers(database: Database) -> None:
    with psycopg_pool.ConnectionPool(database.dsn, min_size=3, max_size=3) as pool, QueueClient(pool) as client:
        pool.wait()
        client.create_queue("orders")
        received = _completed_out_of_sight(client, database)
        with database.connect(autocommit=True) as observer:
            others = "select pg_terminate_backend(pid, 20000) from pg_stat_activity where pid <> pg_backend_pid()"
            observer.execute(others + " and datname = current_database() and backend_type = 'client backend'")
        assert received.resolve() is ReceiveState.COMPLETED


def test_while_the_database_cannot_be_asked_the_last_known_state_stands(database: Database) -> None:
    client = QueueClient(database.dsn)
    client.create_queue("orders")
    received = _completed_out_of_sight(client, database)
    client.close()
    assert received.state is ReceiveState.COMPLETING


def test_the_state_asks_by_itself_where_it_can(database: Database) -> None:
    with QueueClient(database.dsn) as client:
        client.create_queue("orders")
        received = _completed_out_of_sight(client, database)
        known, asked = received.context.state, received.state
        assert (known, asked) == (ReceiveState.COMPLETING, ReceiveState.COMPLETED)
        assert received.context.state is ReceiveState.COMPLETED


def _completed_out_of_sight(client: QueueClient, database: Database) -> ReceivedMessage:
    client.queue("orders").send(Message(1))
    (received,) = client.queue("orders").receive()
    with psycopg.connect(database.dsn) as connection:
        received.complete(transaction=connection)
        assert execute(connection, "select 1") == [(1,)]
    return received
