"""`with received.transaction(source) as tx`: begun, pinned, worked in, completed, committed; on whatever there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import asyncpg
import psycopg
import psycopg2.extensions
import pytest
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from pgqueue import Message, QueueClient, ReceiveState
from pgqueue.errors import (
    FaultedError,
    InvalidStateError,
    LockLostError,
    MessageAlreadySettledError,
    PGQueueError,
    SettlementUndoneError,
    TransactionRequiredError,
    WrongTransactionError,
)
from pgqueue.model.context import Outcome
from pgqueue.testing import Database
from tests.contract.interpreter import meant
from tests.contract.sources import KEPT_OPEN
from tests.contract.transactions import execute
from tests.contract.world import MINUTE, SHARED, World

HANDLES: dict[str, tuple[type, type]] = {
    "nothing": (psycopg.Connection, psycopg.AsyncConnection),
    "connection": (psycopg.Connection, psycopg.AsyncConnection),
    "autocommit connection": (psycopg.Connection, psycopg.AsyncConnection),
    "pool": (psycopg.Connection, psycopg.AsyncConnection),
    "engine": (Connection, AsyncConnection),
    "sqlalchemy connection": (Connection, AsyncConnection),
    "session": (Session, AsyncSession),
    "scoped session": (Session, AsyncSession),
    "session maker": (Session, AsyncSession),
    "other connection": (psycopg2.extensions.connection, asyncpg.Connection),
    "other pool": (Connection, asyncpg.Connection),
    "other engine": (Connection, AsyncConnection),
    "other sqlalchemy connection": (Connection, AsyncConnection),
    "other session": (Session, AsyncSession),
    "other session maker": (Session, AsyncSession),
}


class WorkFailedError(Exception):
    """Raised by the work of a test."""


@contextmanager
def fails_with(error: type[BaseException], words: str | None = None) -> Iterator[None]:
    """The block fails, at whichever of its statements or at its end."""
    with pytest.raises(error, match=words):
        yield


def test_the_work_and_the_completion_are_committed_together(either: World, workplace: str) -> None:
    received = either.locked()
    with either.sources.workplace(workplace) as source:
        with received.transaction(source) as tx:
            assert isinstance(meant(tx), HANDLES[workplace][either.mode.face == "async"])
            execute(tx, either.note("work"))
            assert received.context.state is ReceiveState.RECEIVED
            assert either.effects() == []
            assert either.is_ours(received)
        assert (received.context.state, received.context.outcome) == (ReceiveState.COMPLETED, Outcome.COMPLETED)
        assert either.effects() == ["work"]
        assert either.found() == []


def test_an_exception_rolls_back_and_the_next_try_is_on_the_same_lock(either: World, workplace: str) -> None:
    received = either.locked()
    token = received.lock_token
    with either.sources.workplace(workplace) as source:
        for _ in range(2):
            with fails_with(WorkFailedError), received.transaction(source) as tx:
                execute(tx, either.note("undone"))
                raise WorkFailedError
            assert received.context.state is ReceiveState.RECEIVED
            assert either.effects() == []
            assert either.is_ours(received)
            assert either.queue.receive() == []
        with received.transaction(source) as tx:
            execute(tx, either.note("done"))
    assert (received.lock_token, received.delivery_count) == (token, 1)
    assert either.effects() == ["done"]
    assert either.found() == []


def test_the_lock_is_pinned_before_any_work_starts(either: World, workplace: str) -> None:
    received = either.locked()
    with either.sources.workplace(workplace) as source, received.transaction(source) as tx:
        either.move_clock(2 * MINUTE)
        assert either.queue.receive(max_messages=10) == []
        assert either.queue.receive_and_delete(max_messages=10) == []
        execute(tx, either.note("work"))
    assert received.context.state is ReceiveState.COMPLETED
    assert either.effects() == ["work"]


def test_work_never_starts_on_a_message_that_is_lost_already(either: World, workplace: str) -> None:
    received = either.locked()
    either.move_clock(2 * MINUTE)
    current = either.receive()
    with either.sources.workplace(workplace) as source:
        with pytest.raises(LockLostError), received.transaction(source):
            pytest.fail("work has started")
        assert received.context.state is ReceiveState.FAULTED
        assert either.is_ours(current)
        with current.transaction(source) as tx:
            execute(tx, either.note("of the one who has it"))
    assert either.effects() == ["of the one who has it"]


def test_a_lent_source_is_returned_without_an_open_transaction(either: World, workplace: str) -> None:
    good, bad = either.several_locked(2)
    with either.sources.workplace(workplace) as source:
        with good.transaction(source):
            pass
        with suppress(WorkFailedError), bad.transaction(source):
            raise WorkFailedError
        open_transactions = """select from pg_stat_activity where datname = current_database()
                                  and pid <> pg_backend_pid() and state like 'idle in transaction%'"""
        assert either.look(open_transactions) == []
        if workplace not in KEPT_OPEN:
            assert execute(source, "select 1") == [(1,)]


@pytest.mark.parametrize("source", ["pool", "engine"])
def test_one_connection_is_enough_for_block_after_block(either: World, source: str) -> None:
    with either.sources.narrow_client(source) as client:
        queue = client.queue(either.name)
        for body in range(3):
            either.send(body)
            (received,) = queue.receive()
            with suppress(WorkFailedError), received.transaction():
                raise WorkFailedError
            with received.transaction() as tx:
                execute(tx, either.note(f"work {body}"))
    assert either.effects() == ["work 0", "work 1", "work 2"]


SETTLED: dict[str, tuple[Callable[..., object], ReceiveState, tuple[int, int]]] = {
    "complete": (lambda received, tx: received.complete(transaction=tx), ReceiveState.COMPLETED, (0, 0)),
    "dead_letter": (lambda received, tx: received.dead_letter("Bad", transaction=tx), ReceiveState.COMPLETED, (0, 1)),
    "abandon": (lambda received, tx: received.abandon(delay=MINUTE, transaction=tx), ReceiveState.ABANDONED, (1, 0)),
}


@pytest.mark.parametrize("verb", SETTLED)
def test_the_work_may_settle_the_message_itself(either: World, workplace: str, verb: str) -> None:
    settle, state, (there, dead) = SETTLED[verb]
    received = either.locked()
    with either.sources.workplace(workplace) as source, received.transaction(source) as tx:
        execute(tx, either.note("work"))
        settle(received, tx)
    assert received.resolve() is state
    assert (len(either.found()), len(either.dead())) == (there, dead)
    assert either.effects() == ["work"]


@pytest.mark.parametrize("verb", ["complete", "dead_letter"])
def test_an_exception_undoes_what_the_work_has_settled(either: World, workplace: str, verb: str) -> None:
    received = either.locked()
    with either.sources.workplace(workplace) as source:
        with fails_with(WorkFailedError), received.transaction(source) as tx:
            SETTLED[verb][0](received, tx)
            raise WorkFailedError
        assert received.resolve() is ReceiveState.RECEIVED
        assert either.is_ours(received)


def test_a_message_that_was_dead_lettered_in_a_savepoint_that_was_undone_is_not_completed(
    either: World, workplace: str
) -> None:
    received = either.locked()
    with either.sources.workplace(workplace) as source:
        with fails_with(SettlementUndoneError), received.transaction(source) as tx:
            execute(tx, "savepoint doubtful")
            received.dead_letter("Bad", transaction=tx)
            execute(tx, "rollback to savepoint doubtful")
        assert received.context.state is ReceiveState.RECEIVED
        assert either.is_ours(received)
        assert either.dead() == []


def test_a_message_that_has_a_transaction_gets_no_second_one(either: World) -> None:
    received = either.locked()
    with received.transaction() as tx:
        with pytest.raises(InvalidStateError, match="work in that one"), received.transaction():
            pytest.fail("it was begun")
        execute(tx, either.note("work"))
    assert either.effects() == ["work"]


@pytest.mark.parametrize("is_batch", [False, True])
def test_a_message_is_not_settled_outside_of_the_transaction_that_it_has(either: World, is_batch: bool) -> None:
    received = either.locked()
    complete = partial(either.queue.complete_batch, [received]) if is_batch else received.complete
    with fails_with(SettlementUndoneError), received.transaction() as tx:
        execute(tx, either.note("undone"))
        with either.sources.workplace("connection") as other, pytest.raises(WrongTransactionError):
            complete(transaction=other)
    assert either.effects() == []
    assert either.is_ours(received)


def test_messages_of_different_transactions_are_not_settled_together(either: World) -> None:
    first, second = either.several_locked(2)
    with (
        first.transaction() as tx,
        second.transaction(),
        pytest.raises(InvalidStateError, match="different transactions"),
    ):
        either.queue.complete_batch([first, second], transaction=tx)
    assert either.found() == []


def test_a_verb_that_would_wait_for_its_own_block_is_refused_at_once(either: World) -> None:
    received = either.locked()
    with received.transaction() as tx:
        verbs: list[Callable[[], object]] = [
            received.complete,
            received.abandon,
            lambda: received.abandon(delay=MINUTE),
            lambda: received.dead_letter("Bad"),
        ]
        for verb in verbs:
            with pytest.raises(InvalidStateError, match="locked by the transaction of this block"):
                verb()
        (result,) = either.queue.complete_batch([received])
        assert isinstance(result.error, InvalidStateError)
        assert received.renew_lock() == received.locked_until
        execute(tx, either.note("work"))
    assert received.context.state is ReceiveState.COMPLETED
    assert either.effects() == ["work"]


def test_after_a_block_that_failed_the_message_can_be_settled_alone(either: World, workplace: str) -> None:
    received = either.locked()
    with either.sources.workplace(workplace) as source:
        with suppress(WorkFailedError), received.transaction(source):
            raise WorkFailedError
        received.dead_letter("Bad", "after a look")
    assert [message.dead_letter_reason for message in either.dead()] == ["Bad"]


def test_a_delivery_that_is_faulted_in_the_block_is_not_completed(either: World) -> None:
    received = either.locked()
    with fails_with(FaultedError), received.transaction() as tx:
        execute(tx, either.note("undone"))
        received.fault()
    assert received.context.state is ReceiveState.FAULTED
    assert either.effects() == []
    assert either.is_ours(received)


def test_a_callback_that_raises_at_the_end_rolls_back(either: World) -> None:
    received = either.locked()
    received.context.on_complete(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError), received.transaction() as tx:
        execute(tx, either.note("undone"))
    assert received.context.state is ReceiveState.FAULTED
    assert either.effects() == []


def test_a_statement_that_failed_unnoticed_fails_the_block(either: World, workplace: str) -> None:
    received = either.locked()
    with either.sources.workplace(workplace) as source:
        with fails_with(PGQueueError, "aborted"), received.transaction(source) as tx:
            execute(tx, either.note("undone"))
            with suppress(Exception):
                execute(tx, "select 1 / 0")
        assert received.context.state is ReceiveState.RECEIVED
        assert either.is_ours(received)
        assert either.effects() == []


def test_a_commit_that_the_database_refuses_leaves_the_message_received(either: World, workplace: str) -> None:
    received = either.locked()
    with either.sources.workplace(workplace) as source:
        with pytest.raises(PGQueueError, match="checked_late") as refusal, received.transaction(source) as tx:
            execute(tx, "insert into checked_late values (1), (1)")
        assert refusal.value.sqlstate == "23505"
        assert received.context.state is ReceiveState.RECEIVED
        assert either.is_ours(received)
        with received.transaction(source):
            pass
    assert either.found() == []


def refusal(world: World, workplace: str) -> tuple[type[Exception], str]:
    """The refusal of `commit()` and `rollback()` in a block: by psycopg2 itself; of asyncpg there are none to call."""
    if HANDLES[workplace][world.mode.face == "async"] is asyncpg.Connection:
        return AttributeError, "no attribute"
    if workplace == "other connection":
        return psycopg2.ProgrammingError, "cannot be used during a two-phase transaction"
    return TransactionRequiredError, "are refused here"


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_the_block_cannot_be_ended_by_its_work(either: World, workplace: str, end: str) -> None:
    received = either.locked()
    with either.sources.workplace(workplace) as source:
        with fails_with(*refusal(either, workplace)), received.transaction(source) as tx:
            execute(tx, either.note("work"))
            getattr(tx, end)()
        assert received.context.state is ReceiveState.RECEIVED
        assert either.effects() == []
        with received.transaction(source) as tx:
            execute(tx, either.note("before"))
            with suppress(refusal(either, workplace)[0]):
                getattr(tx, end)()
            execute(tx, either.note("after"))
        assert either.effects() == ["before", "after"]
        assert either.found() == []


@pytest.mark.parametrize("kind", ["connection", "sqlalchemy connection", "session", "scoped session"])
def test_a_source_can_be_committed_again_after_the_block(either: World, kind: str) -> None:
    received = either.locked()
    with either.sources.workplace(kind) as source:
        with fails_with(WorkFailedError), received.transaction(source):
            raise WorkFailedError
        with received.transaction(source):
            pass
        execute(source, either.note("of the caller"))
        source.rollback()
        execute(source, either.note("of the caller again"))
        source.commit()
    assert either.effects() == ["of the caller again"]


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_block_that_sql_text_has_ended_completes_nothing(either: World, workplace: str, end: str) -> None:
    received = either.locked()
    with either.sources.workplace(workplace) as source:
        with fails_with(WrongTransactionError), received.transaction(source) as tx:
            execute(tx, either.note("work"))
            execute(tx, end)
        assert received.context.state is ReceiveState.RECEIVED
        assert either.is_ours(received)
        with received.transaction(source):
            pass
    assert either.found() == []


def test_a_delivery_that_is_over_is_not_worked_on(either: World) -> None:
    received = either.locked()
    received.complete()
    with pytest.raises(MessageAlreadySettledError, match=r"transaction\(\)"), received.transaction():
        pytest.fail("work has started")
    faulted = either.locked()
    faulted.fault()
    with pytest.raises(FaultedError), faulted.transaction():
        pytest.fail("work has started")


@pytest.mark.parametrize("kind", ["connection", "sqlalchemy connection", "session", "scoped session"])
def test_a_source_that_is_in_a_transaction_is_left_alone(either: World, kind: str) -> None:
    received = either.locked()
    with either.sources.workplace(kind) as source:
        execute(source, either.note("of the caller"))
        with pytest.raises(InvalidStateError, match="in a transaction already"), received.transaction(source):
            pytest.fail("work has started")
        assert received.context.state is ReceiveState.RECEIVED
        source.commit()
        with received.transaction(source):
            pass
    assert either.effects() == ["of the caller"]
    assert either.found() == []


@pytest.mark.parametrize("autocommit", [False, True], ids=["", "autocommit"])
def test_a_connection_in_a_pipeline_is_refused(database: Database, autocommit: bool) -> None:
    with QueueClient(database.dsn) as client, database.connect(autocommit=autocommit) as connection:
        client.create_queue("q")
        client.queue("q").send(Message("a"))
        (received,) = client.queue("q").receive()
        with (
            connection.pipeline(),
            pytest.raises(TransactionRequiredError, match="in pipeline mode"),
            received.transaction(connection),
        ):
            pytest.fail("it began")
        assert received.state is ReceiveState.RECEIVED
        with received.transaction(connection):
            """Now it can."""
        assert not client.queue("q").peek()


def test_a_settlement_in_an_aborted_pipeline_is_refused(database: Database) -> None:
    with QueueClient(database.dsn) as client, database.connect() as connection:
        client.create_queue("q")
        client.queue("q").send(Message("a"))
        (received,) = client.queue("q").receive()
        with suppress(psycopg.errors.PipelineAborted), connection.pipeline():
            with pytest.raises(psycopg.errors.DivisionByZero):
                connection.execute("select 1 / 0").fetchone()
            with pytest.raises(PGQueueError, match="in the pipeline: roll it back") as refused:
                received.complete(transaction=connection)
            assert not refused.value.is_transient
        connection.rollback()
        assert received.state is ReceiveState.RECEIVED
        received.complete()


def test_a_block_after_an_unreported_abort_completes_the_message(caller: World) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        transaction.rollback()
    with received.transaction() as tx:
        execute(tx, caller.note("work"))
    assert received.context.state is ReceiveState.COMPLETED
    assert caller.effects() == ["work"]
    assert caller.found() == []


def test_a_block_after_an_unreported_commit_is_refused(caller: World) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        transaction.commit()
    with pytest.raises(MessageAlreadySettledError), received.transaction():
        pytest.fail("work has started")


def test_an_engine_in_autocommit_has_no_transaction_to_work_in(either: World) -> None:
    received = either.locked()
    engine = either.sources.engine.execution_options(isolation_level="AUTOCOMMIT")
    with pytest.raises(TransactionRequiredError, match="AUTOCOMMIT"), received.transaction(engine):
        pytest.fail("work has started")
    assert received.context.state is ReceiveState.RECEIVED
    received.complete()


def test_a_connection_that_is_lost_in_the_block_leaves_the_message_received(either: World, workplace: str) -> None:
    received = either.locked()
    with either.sources.workplace(workplace) as source:
        with fails_with(Exception, r"terminat|closed|lost|released"), received.transaction(source) as tx:
            execute(tx, either.note("undone"))
            ((process,),) = execute(tx, "select pg_backend_pid()")
            either.look("select pg_terminate_backend(%s, 5000)", process)
            execute(tx, "select 1")
        assert received.context.state is ReceiveState.RECEIVED
    assert either.is_ours(received)
    assert either.effects() == []
    with received.transaction():
        pass
    assert either.found() == []


def test_every_kind_of_caller_is_a_kind_of_workplace() -> None:
    assert {mode.caller for mode in SHARED} <= HANDLES.keys()
