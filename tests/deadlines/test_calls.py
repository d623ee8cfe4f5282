"""A call that the server does not answer fails at its deadline, and nothing is guessed about what became of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import pgqueue
from pgqueue import Message, ReceiveState
from pgqueue.errors import (
    CommitInDoubtError,
    ConnectionLostError,
    InvalidArgumentError,
    InvalidStateError,
    OperationTimeoutError,
    PGQueueError,
)
from pgqueue.flows.traced import PART
from tests.chaos.proxy import Proxy
from tests.contract.sources import CALLERS, CLIENTS, Sources
from tests.deadlines.server import LATE, Silenced, silent_host
from tests.patience import eventually

SECOND = timedelta(seconds=1)
EXPIRED = pytest.raises(OperationTimeoutError)
UNANSWERED = (ConnectionLostError, OperationTimeoutError)

#: So many that they are sent in parts.
MANY = ["in doubt"] * (2 * PART)


@contextmanager
def in_time(seconds: float = 1.0) -> Iterator[None]:
    began_at = time.monotonic()
    yield
    assert time.monotonic() - began_at < seconds + LATE


def made(sources: Sources, kind: str, **options: Any) -> Any:
    """A client with a queue."""
    source: Any = {"dsn": sources.database.dsn, "pool": sources.pool, "engine": sources.engine}[kind]
    client = sources.made_of(source, **options)
    sources._closing.append(client.close)
    client.create_queue("q", exist_ok=True)
    return client


def bodies(sources: Sources) -> list[Any]:
    with pgqueue.QueueClient(sources.database.dsn) as onlooker:
        return [message.body for message in onlooker.queue("q").peek(max_messages=2 * len(MANY))]


def executed(sources: Sources, statement: str) -> list[tuple[Any, ...]]:
    cursor = sources.onlooker.execute(statement.encode())
    return cursor.fetchall() if cursor.description else []


@pytest.mark.core
@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("sent", [MANY[:1], MANY], ids=["one", "many"])
def test_a_send_to_a_frozen_server_fails_at_its_deadline(
    silenced: Silenced, sources: Sources, kind: str, sent: list[str]
) -> None:
    queue = made(sources, kind, timeout=SECOND).queue("q")
    queue.send(Message("before"))
    with silenced.frozen(), in_time(), pytest.raises(UNANSWERED):
        queue.send_batch(map(Message, sent))
    eventually(lambda: _succeeds(queue))
    found = bodies(sources)
    assert found.count("before") == 1
    assert found.count("in doubt") in (0, len(sent))


def _succeeds(queue: Any) -> bool:
    try:
        queue.send(Message("after"))
    except UNANSWERED:
        return False
    return True


def test_a_new_connection_to_a_frozen_server_fails_at_its_deadline(silenced: Silenced, sources: Sources) -> None:
    client = sources.made_of(sources.database.dsn, timeout=SECOND)
    with silenced.frozen(), in_time(), pytest.raises(UNANSWERED):
        client.list_queues()
    client.close()


@pytest.mark.parametrize("kind", ["dsn", "pool"])
def test_a_free_connection_is_waited_for_until_the_deadline(sources: Sources, kind: str) -> None:
    client = made(sources, kind, timeout=SECOND)
    queue = client.queue("q")
    queue.send_batch([Message(1)] * 11)
    *blocks, one_more = [received.transaction() for received in queue.receive(max_messages=11 if kind == "dsn" else 5)]
    for block in blocks:
        block.__enter__()
    with in_time(), pytest.raises(OperationTimeoutError):
        one_more.__enter__()
    for block in blocks:
        block.__exit__(None, None, None)


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("sent", [MANY[:1], MANY], ids=["one", "many"])
def test_a_send_whose_commit_waits_for_a_lost_standby_fails_and_is_stored_once(
    silenced: Silenced, sources: Sources, kind: str, sent: list[str]
) -> None:
    queue = made(sources, kind, timeout=SECOND).queue("q")
    with silenced.without_standby(), in_time(), pytest.raises(ConnectionLostError, match="no answer"):
        queue.send_batch(map(Message, sent))
    eventually(lambda: bodies(sources) == sent)


@pytest.mark.parametrize("work_source", ["nothing", "connection", "pool", "engine", "session maker"])
def test_a_commit_without_an_answer_is_in_doubt_and_is_resolved_later(
    silenced: Silenced, sources: Sources, work_source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgqueue.flows.in_doubt.COMMIT_OUTCOME_TIMEOUT", SECOND)
    queue = made(sources, "dsn", timeout=SECOND).queue("q")
    queue.send(Message("work"))
    (received,) = queue.receive()
    doubt = pytest.raises(CommitInDoubtError)
    with silenced.without_standby(), sources.workplace(work_source) as source, in_time(4), doubt:
        sources.process(received, lambda _, tx: None, source)
    eventually(lambda: received.resolve() is not ReceiveState.COMPLETING)
    assert received.state is ReceiveState.COMPLETED
    assert bodies(sources) == []


def test_a_settlement_without_an_answer_is_in_doubt_and_is_resolved_later(silenced: Silenced, sources: Sources) -> None:
    queue = made(sources, "dsn", timeout=SECOND).queue("q")
    queue.send(Message("work"))
    (received,) = queue.receive()
    with silenced.frozen(), in_time(), pytest.raises(ConnectionLostError, match="no answer"):
        received.complete()
    eventually(lambda: _resolved(received))
    if received.state is ReceiveState.RECEIVED:
        with pytest.raises(InvalidStateError) if bodies(sources) == [] else in_time():
            received.complete()
    assert bodies(sources) == []


def _resolved(received: Any) -> bool:
    try:
        return received.resolve() is not ReceiveState.COMPLETING
    except PGQueueError:
        return False


def test_a_sender_gets_an_outcome_and_stores_a_message_once(silenced: Silenced, sources: Sources) -> None:
    queue = made(sources, "dsn", timeout=SECOND).queue("q")
    sender = queue.sender()
    with silenced.frozen():
        pending = sender.send(Message("once"))
        with pytest.raises(OperationTimeoutError):
            pending.result(timeout=SECOND)
    try:
        pending.result()
    except PGQueueError:
        assert len(bodies(sources)) <= 1
    else:
        assert bodies(sources) == ["once"]
    sender.close()


def test_a_block_has_a_deadline_for_the_waits_of_a_sender(silenced: Silenced, sources: Sources) -> None:
    sender = made(sources, "dsn", timeout=SECOND).queue("q").sender(max_in_flight=1)
    with silenced.frozen(), pgqueue.deadline(SECOND), in_time():
        pending = sender.send(Message("once"))
        with pytest.raises(OperationTimeoutError, match="is still out"):
            pending.result()
        with pytest.raises(OperationTimeoutError, match="nothing was sent"):
            sender.send(Message("never"))
    with suppress(PGQueueError):
        pending.result()
    sender.close()
    assert "never" not in bodies(sources)


@pytest.mark.parametrize("kind", CALLERS)
def test_a_deadline_in_the_callers_transaction_closes_its_connection(
    silenced: Silenced, sources: Sources, kind: str
) -> None:
    queue = made(sources, "dsn", timeout=SECOND).queue("q")
    transaction = sources.transaction(kind)
    transaction.begin()
    transaction.execute("select 1")
    with silenced.frozen(), in_time(), pytest.raises(ConnectionLostError, match="the connection was closed"):
        queue.send(Message("undone"), transaction=transaction.handle)
    with pytest.raises(Exception, match=r"clos|lost|invalid"):
        transaction.execute("select 1")
    eventually(lambda: executed(sources, "select 1 from pg_stat_activity where state like 'idle in%'") == [])
    assert bodies(sources) == []


def test_another_host_is_used_after_one_that_does_not_answer(sources: Sources) -> None:
    """Also by calls that find idle connections to it."""
    with Proxy(sources.database.dsn) as proxy:
        client = sources.made_of(two_hosts(port_of(proxy.dsn), sources.database.dsn), timeout=4 * SECOND, listen=False)
        client.create_queue("q")
        queue = client.queue("q")
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(lambda body: queue.send(Message(body)), range(12)))
        with proxy.frozen():
            with in_time(4), pytest.raises(ConnectionLostError):
                queue.send(Message("in doubt"))
            for body in range(3):
                eventually(lambda: _succeeds(queue))
                queue.send(Message(f"after {body}"))
        client.close()
    assert bodies(sources)[-1] == "after 2"


def test_a_silent_first_host_leaves_time_for_the_next(sources: Sources) -> None:
    with silent_host() as port:
        client = sources.made_of(two_hosts(port, sources.database.dsn), timeout=8 * SECOND, listen=False)
        with in_time(8):
            eventually(lambda: client.list_queues() == [])
        client.close()


def port_of(dsn: str) -> int:
    return int(str(conninfo_to_dict(dsn)["port"]))


def two_hosts(port: int, dsn: str) -> str:
    """First the host at this port, then the one of the DSN."""
    second = conninfo_to_dict(dsn)
    host, name = f"127.0.0.1,{second['host']}", second["dbname"]
    return make_conninfo(host=host, port=f"{port},5432", dbname=name, user=second["user"], sslmode="disable")


def test_a_block_has_a_deadline_for_all_calls_in_it(silenced: Silenced, sources: Sources) -> None:
    queue = made(sources, "dsn", timeout=None).queue("q")
    with silenced.frozen(), pgqueue.deadline(SECOND):
        with in_time(), pytest.raises(ConnectionLostError, match="no answer"):
            queue.send(Message("in doubt"))
        with in_time(0), pytest.raises(OperationTimeoutError, match="the deadline is over"):
            queue.send(Message("not sent"))
        with in_time(0), pytest.raises(OperationTimeoutError):
            queue.receive(wait=timedelta(minutes=10))
    eventually(lambda: _succeeds(queue))
    assert "not sent" not in bodies(sources)


def test_an_inner_block_does_not_outlast_an_outer_one(sources: Sources) -> None:
    queue = made(sources, "dsn").queue("q")
    with pgqueue.deadline(SECOND), pgqueue.deadline(timedelta(minutes=10)), in_time(), EXPIRED:
        queue.receive(wait=timedelta(minutes=5))
    with pgqueue.deadline(timedelta(minutes=10)):
        with pgqueue.deadline(timedelta(milliseconds=1)), pytest.raises(OperationTimeoutError):
            queue.receive(wait=timedelta(minutes=5))
        queue.send(Message(1))


def test_a_wait_for_messages_is_added_to_the_timeout(sources: Sources) -> None:
    queue = made(sources, "dsn", timeout=timedelta(seconds=5)).queue("q")
    assert queue.receive(wait=timedelta(seconds=6)) == []


def test_statements_of_the_work_have_no_deadline(sources: Sources) -> None:
    queue = made(sources, "dsn", timeout=timedelta(seconds=3)).queue("q")
    queue.send(Message(1))
    (received,) = queue.receive()
    with received.transaction() as tx:
        tx.execute("select pg_sleep(3.5)")
    assert received.state is ReceiveState.COMPLETED


def test_a_client_without_a_timeout_waits(sources: Sources) -> None:
    client = made(sources, "dsn", timeout=None)
    queue = client.queue("q")
    queue.send(Message(1))
    with sources.database.connect() as blocking, ThreadPoolExecutor(1) as threads:
        blocking.execute("lock table pgqueue.message")
        sending = threads.submit(queue.send, Message(2))
        eventually(lambda: executed(sources, "select 1 from pg_stat_activity where wait_event_type = 'Lock'") != [])
        blocking.rollback()
        assert sending.result() is not None


@pytest.mark.parametrize("timeout", [timedelta(0), timedelta(seconds=-1), 5])
def test_wrong_timeouts_are_refused(sources: Sources, timeout: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="timeout must be"):
        sources.made_of(sources.database.dsn, timeout=timeout)
    with pytest.raises(InvalidArgumentError, match="timeout must be"), pgqueue.deadline(timeout):
        """Never entered."""


def test_a_client_closes_in_time_while_the_server_is_frozen(silenced: Silenced, sources: Sources) -> None:
    client = made(sources, "dsn")
    queue = client.queue("q")
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(queue.receive, wait=timedelta(minutes=10))
        eventually(lambda: executed(sources, "select 1 from pg_stat_activity where query like '%listen%'") != [])
        queue.send(Message(1))
        assert waiting.result()
        with silenced.frozen(), in_time(10):
            client.close()


def test_a_warning_names_the_server_that_does_not_answer(
    silenced: Silenced, sources: Sources, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pgqueue.transports.deadlines.SILENCE", 0.2)
    queue = made(sources, "dsn", timeout=timedelta(seconds=2)).queue("q")
    with silenced.frozen(), pytest.raises(ConnectionLostError):
        queue.send(Message(1))
    assert [record.message for record in caplog.records if "no answer from the server on" in record.message]


def test_a_call_leaves_no_wait_override_on_the_connection(sources: Sources) -> None:
    """The settings that a deadline adds to a connection end with the call."""
    queue = made(sources, "dsn").queue("q")
    transaction = sources.transaction("connection")
    queue.send(Message(1), transaction=transaction.handle)
    handle: Any = getattr(transaction.handle, "_meaning", transaction.handle)
    assert isinstance(handle, psycopg.Connection | psycopg.AsyncConnection)
    assert "wait" not in vars(handle)
    transaction.rollback()
    transaction.close()
