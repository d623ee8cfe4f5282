"""Callers that wait for outcomes: one of them polls for all, and a NOTIFY wakes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

import pgqueue.aio
from pgqueue import Message, Outcome, QueueClient
from pgqueue.errors import (
    MessageNotFoundError,
    OperationTimeoutError,
    QueueNotFoundError,
)
from pgqueue.flows import Flow
from pgqueue.model.backoff import Backoff
from pgqueue.statements import Statement
from pgqueue.testing import Database
from pgqueue.transports import waiters as waiting_room
from pgqueue.transports.waiters import Waiters
from tests.forking.children import Child
from tests.patience import eventually

LONG = timedelta(hours=1)
MANY = 2000
LISTENERS = "pg_stat_activity where datname = current_database() and application_name = 'pgqueue notify listener'"
CUT = f"select pg_terminate_backend(pid) from {LISTENERS}"


@pytest.fixture
def client(database: Database) -> Iterator[QueueClient]:
    with QueueClient(database.dsn) as client:
        client.create_queue("q", result_retention=timedelta(days=1))
        yield client


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(50) as threads:
        yield threads


@pytest.fixture
def polls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """For how many messages each poll asks."""
    asked: list[int] = []
    due = Waiters.due

    def counted(self: Waiters, now: float) -> list[int]:
        numbers = due(self, now)
        asked.append(len(numbers))
        return numbers

    monkeypatch.setattr(Waiters, "due", counted)
    return asked


@pytest.fixture
def only_notified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polls are so rare that a test would not end without a NOTIFY."""
    monkeypatch.setattr(waiting_room, "RARE_POLLS", Backoff(LONG, LONG))


def waiters_of(client: Any) -> Waiters:
    waiters = client.queue("q")._source.waiters("q")
    assert isinstance(waiters, Waiters)
    return waiters


def wait(threads: ThreadPoolExecutor, client: QueueClient, number: int, **options: Any) -> Future[Outcome]:
    """Begin to wait in a thread."""
    return threads.submit(client.queue("q").wait_for, number, **options)


def settle_all(client: QueueClient, count: int) -> None:
    while count:
        received = client.queue("q").receive(max_messages=min(count, 100))
        client.queue("q").complete_batch(received)
        count -= len(received)


@pytest.mark.usefixtures("only_notified")
def test_a_caller_is_woken_when_its_message_is_settled(client: QueueClient, threads: ThreadPoolExecutor) -> None:
    for result in range(5):
        number = client.queue("q").send(Message("a"))
        outcome = wait(threads, client, number)
        eventually(lambda: waiters_of(client).is_live)
        client.queue("q").receive()[0].complete(result=result)
        assert outcome.result(300).result == result


@pytest.mark.usefixtures("only_notified")
def test_a_settlement_in_a_transaction_wakes_when_that_commits(
    client: QueueClient, threads: ThreadPoolExecutor, database: Database
) -> None:
    number = client.queue("q").send(Message("a"))
    outcome = wait(threads, client, number)
    eventually(lambda: waiters_of(client).is_live)
    (received,) = client.queue("q").receive()
    with database.connect() as connection:
        received.complete(result=1, transaction=connection)
        assert client.queue("q").result(number) is None
        assert not outcome.done()
    assert outcome.result(300).result == 1


def test_threads_share_one_connection_and_their_polls(
    client: QueueClient, threads: ThreadPoolExecutor, database: Database, polls: list[int]
) -> None:
    numbers = client.queue("q").send_batch([Message(n) for n in range(50)])
    outcomes = [wait(threads, client, number) for number in numbers]
    eventually(lambda: len(waiters_of(client)._waiters) == 50 and waiters_of(client).is_live)
    with database.connect(autocommit=True) as connection:
        assert connection.execute(f"select count(*) from {LISTENERS}".encode()).fetchone() == (1,)
    settle_all(client, 50)
    assert {outcome.result(300).state for outcome in outcomes} == {"COMPLETED"}


async def test_many_tasks_poll_in_few_statements(client: QueueClient, database: Database, polls: list[int]) -> None:
    numbers = client.queue("q").send_batch([Message(n) for n in range(MANY)])
    async with pgqueue.aio.QueueClient(database.dsn) as theirs:
        waiting = [asyncio.create_task(theirs.queue("q").wait_for(number)) for number in numbers]
        await asyncio.to_thread(
            eventually, lambda: len(waiters_of(theirs)._waiters) == MANY and waiters_of(theirs).is_live
        )
        polls.clear()
        await asyncio.sleep(1)
        assert len([asked for asked in polls if asked]) <= 5  # at .25, .5 and 1 s, and one or two that were begun
        await asyncio.to_thread(settle_all, client, MANY)
        outcomes = await asyncio.gather(*waiting)
        assert {outcome.state for outcome in outcomes} == {"COMPLETED"}
        assert theirs._source._pool.get_stats()["pool_size"] <= 4  # type: ignore[attr-defined]
        assert waiters_of(theirs)._waiters == {}


@pytest.mark.usefixtures("only_notified")
async def test_when_the_one_who_polls_is_cancelled_another_takes_over(client: QueueClient, database: Database) -> None:
    numbers = client.queue("q").send_batch([Message(n) for n in range(20)])
    async with pgqueue.aio.QueueClient(database.dsn) as theirs:
        waiting = [asyncio.create_task(theirs.queue("q").wait_for(number)) for number in numbers]
        for task in waiting[:-1]:
            await asyncio.sleep(0.02)
            task.cancel()
        await asyncio.gather(*waiting[:-1], return_exceptions=True)
        await asyncio.to_thread(eventually, lambda: waiters_of(theirs).is_live)
        await asyncio.to_thread(settle_all, client, 20)
        assert (await waiting[-1]).state == "COMPLETED"
        assert all(task.cancelled() for task in waiting[:-1])


def test_a_successor_asks_for_what_the_one_who_left_has_asked_for(client: QueueClient) -> None:
    waiters = waiters_of(client)
    with ExitStack() as polling, waiters.joined(2):
        polling.enter_context(waiters.joined(1))
        waiters.poller = waiters._waiters[1][0]
        assert sorted(waiters.due(0)) == [1, 2]
        polling.close()
        assert waiters.due(0) == [2]


def test_those_who_give_up_leave_nothing_behind(client: QueueClient, threads: ThreadPoolExecutor) -> None:
    numbers = client.queue("q").send_batch([Message(n) for n in range(30)])
    outcomes = [
        wait(threads, client, number, timeout=timedelta(milliseconds=10 * n + 1)) for n, number in enumerate(numbers)
    ]
    for outcome in outcomes:
        with pytest.raises(OperationTimeoutError):
            outcome.result(300)
    assert (waiters_of(client)._waiters, waiters_of(client).poller) == ({}, None)


def test_several_wait_for_the_same_message(client: QueueClient, threads: ThreadPoolExecutor) -> None:
    number = client.queue("q").send(Message("a"))
    outcomes = [wait(threads, client, number) for _ in range(5)]
    eventually(lambda: [len(together) for together in waiters_of(client)._waiters.values()] == [5])
    settle_all(client, 1)
    assert {outcome.result(300).state for outcome in outcomes} == {"COMPLETED"}


def test_waiting_for_an_unknown_message_disturbs_no_other_caller(
    client: QueueClient, threads: ThreadPoolExecutor
) -> None:
    unknown = wait(threads, client, 10**9)
    number = client.queue("q").send(Message("a"))
    outcome = wait(threads, client, number)
    with pytest.raises(MessageNotFoundError):
        unknown.result(300)
    settle_all(client, 1)
    assert outcome.result(300).state == "COMPLETED"


def test_a_message_that_goes_away_without_an_outcome_ends_the_wait(
    client: QueueClient, threads: ThreadPoolExecutor
) -> None:
    number = client.queue("q").send(Message("a"))
    client.create_queue("other")
    outcome = wait(threads, client, number)
    eventually(lambda: waiters_of(client).is_live)
    client.queue("q").move_messages([number], to="other")
    with pytest.raises(MessageNotFoundError):
        outcome.result(300)


def test_a_client_that_does_not_listen_polls(client: QueueClient, database: Database) -> None:
    number = client.queue("q").send(Message("a"))
    with QueueClient(database.dsn, listen=False) as deaf, ThreadPoolExecutor() as threads:
        outcome = wait(threads, deaf, number)
        eventually(lambda: waiters_of(deaf)._waiters)
        settle_all(client, 1)
        assert outcome.result(300).state == "COMPLETED"
    with database.connect(autocommit=True) as connection:
        assert connection.execute("select from pgqueue.waiting_for_outcome").fetchall() == []


def test_a_settlement_that_no_notify_announces_is_found(
    client: QueueClient, threads: ThreadPoolExecutor, database: Database
) -> None:
    number = client.queue("q").send(Message("a"))
    outcome = wait(threads, client, number)
    eventually(lambda: waiters_of(client).is_live)
    with database.connect() as connection:
        connection.execute("set local pgqueue.notify = off")
        client.queue("q").receive()[0].complete(result=1, transaction=connection)
    assert outcome.result(300).result == 1


def test_the_wait_outlasts_lost_connections(
    client: QueueClient, threads: ThreadPoolExecutor, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    number = client.queue("q").send(Message("a"))
    outcome = wait(threads, client, number)
    eventually(lambda: waiters_of(client).is_live)
    ours = "pg_stat_activity where datname = current_database() and application_name like 'pgqueue%'"
    with database.connect(autocommit=True) as connection:
        connection.execute(f"select pg_terminate_backend(pid, 20000) from {ours}".encode())
    eventually(lambda: waiters_of(client).is_live)
    with QueueClient(database.dsn) as another:
        settle_all(another, 1)
    assert outcome.result(300).state == "COMPLETED"


def failing(monkeypatch: pytest.MonkeyPatch, client: QueueClient) -> Callable[[], object]:
    """Make the polls of the client fail, as when the database is away; returns what ends that."""
    source: Any = client.queue("q")._source
    execute = source.execute

    def fail(statement: Statement[Any]) -> Flow[Any]:
        yield from ()
        raise pgqueue.errors.ConnectionLostError("gone")

    monkeypatch.setattr(source, "execute", fail)
    return lambda: monkeypatch.setattr(source, "execute", execute)


def test_the_wait_outlasts_an_outage(
    client: QueueClient, threads: ThreadPoolExecutor, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = client.queue("q").send_batch([Message(n) for n in range(3)])
    end = failing(monkeypatch, client)
    impatient = wait(threads, client, numbers[0], timeout=timedelta(milliseconds=200))
    outcomes = [wait(threads, client, number) for number in numbers[1:]]
    with pytest.raises(OperationTimeoutError) as error:
        impatient.result(300)
    assert isinstance(error.value.__cause__, pgqueue.errors.ConnectionLostError)
    end()
    settle_all(client, 3)
    assert {outcome.result(300).state for outcome in outcomes} == {"COMPLETED"}


def test_an_error_that_stays_is_raised_to_all(
    client: QueueClient, threads: ThreadPoolExecutor, database: Database
) -> None:
    numbers = client.queue("q").send_batch([Message(n) for n in range(5)])
    outcomes = [wait(threads, client, number) for number in numbers]
    eventually(lambda: len(waiters_of(client)._waiters) == 5 and waiters_of(client).is_live)
    with database.connect(autocommit=True) as connection:
        connection.execute("select pgqueue.drop_queue('q')")
    for outcome in outcomes:
        with pytest.raises(QueueNotFoundError):
            outcome.result(300)
    assert waiters_of(client).poller is None


def test_too_many_notifications_end_the_subscription_for_a_while(
    client: QueueClient, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgqueue.transports.notify_listener.MOST_NOTIFICATIONS_A_SECOND", 100)
    numbers = client.queue("q").send_batch([Message(n) for n in range(200)])
    outcome = wait(threads, client, numbers[-1])
    eventually(lambda: waiters_of(client).is_live)
    for _ in range(200):
        client.queue("q").receive()[0].complete()
    assert outcome.result(300).state == "COMPLETED"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_waits_by_itself(client: QueueClient, threads: ThreadPoolExecutor) -> None:
    number = client.queue("q").send(Message("a"))
    outcome = wait(threads, client, number)
    eventually(lambda: waiters_of(client).is_live)
    child = Child(lambda: client.queue("q").wait_for(number).state)
    settle_all(client, 1)
    assert child.answer() == "COMPLETED"
    assert outcome.result(300).state == "COMPLETED"
