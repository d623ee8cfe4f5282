"""Waiting receivers are woken when messages come, and queues without them pay nothing for it."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pgqueue.aio
from pgqueue import Message, QueueClient
from pgqueue.model.backoff import Backoff
from pgqueue.testing import Database
from pgqueue.transports.notify_listener import NotifyListener
from tests.patience import eventually

#: So long that a test would not end, were it waited for to its end.
LONG = timedelta(hours=1)
#: `select` refuses file descriptors from this number on.
SELECTS_LIMIT = 1024
LISTENERS = "pg_stat_activity where datname = current_database() and application_name = 'pgqueue notify listener'"
AWAITED = "select awaited_until > pgqueue.clock() from pgqueue._upkeep where queue = %s"


@pytest.fixture
def client(database: Database) -> Iterator[QueueClient]:
    with QueueClient(database.dsn) as client:
        client.create_queue("q")
        yield client


def is_awaited(database: Database, queue: str = "q") -> bool:
    with database.connect(autocommit=True) as connection:
        return connection.execute(AWAITED, [queue]).fetchone() == (True,)


class Waiting:
    """A receiver that waits for a message in a thread."""

    def __init__(self, receive: Callable[[], list[Any]]) -> None:
        self.received: list[Any] = []
        self._receive = receive
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.received = self._receive()

    def end(self) -> None:
        self._thread.join(300)
        assert not self._thread.is_alive()


def test_a_waiting_receiver_is_woken_long_before_its_next_poll(
    client: QueueClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pause in ("SHORTEST_PAUSE", "LONGEST_PAUSE"):
        monkeypatch.setattr(f"pgqueue.statements.looking.{pause}", LONG.total_seconds())
    queue = client.queue("q")
    for _ in range(5):
        waiting = Waiting(lambda: queue.receive(wait=LONG))
        eventually(lambda: is_awaited(database))
        queue.send(Message("a"))
        waiting.end()
        waiting.received[0].complete()


@pytest.mark.parametrize("number", ["9" * 5000, "no number", "\N{SUPERSCRIPT TWO}", ""])
@pytest.mark.parametrize("channel", ["pgqueue_lock_lost", "pgqueue_settled"])
def test_a_notification_of_a_stranger_does_not_end_the_listener(
    client: QueueClient, database: Database, channel: str, number: str
) -> None:
    client.update_queue("q", result_retention=LONG)
    queue = client.queue("q")
    queue.send(Message("locked"))
    (held,) = queue.receive()
    source: Any = queue._source
    with pgqueue.AutoLockRenewer() as renewer:
        renewer.register(held)
        outcome = Waiting(lambda: [queue.wait_for(held.sequence_number, timeout=LONG)])
        waiting = Waiting(lambda: queue.receive(wait=LONG))
        eventually(lambda: source.waiters("q").is_live and source.wake_signal("q").is_live)
        with database.connect(autocommit=True) as stranger:
            stranger.execute("select pg_notify(%s, %s)", [channel, f"{number} q"])
        queue.send(Message("a"))
        waiting.end()
        held.complete()
        outcome.end()
        assert not source._listener._is_unavailable


def test_an_awaiting_receiver_is_woken_too(client: QueueClient, database: Database) -> None:
    async def receive() -> list[Any]:
        async with pgqueue.aio.QueueClient(database.dsn) as theirs:
            return list(await theirs.queue("q").receive(wait=LONG))

    waiting = Waiting(lambda: asyncio.run(receive()))
    eventually(lambda: is_awaited(database))
    client.queue("q").send(Message("a"))
    waiting.end()
    assert [message.body for message in waiting.received] == ["a"]


@pytest.mark.parametrize("is_shared", [False, True], ids=["own", "shared"])
def test_a_woken_receiver_that_deletes_does_so_in_its_transaction(
    client: QueueClient, database: Database, is_shared: bool
) -> None:
    queue = client.queue("q")
    wake_signal: Any = queue._source.wake_signal("q")
    with psycopg.connect(database.dsn) as connection:
        transaction = connection if is_shared else None
        waiting = Waiting(lambda: queue.receive_and_delete(wait=LONG, transaction=transaction))
        eventually(lambda: wake_signal.is_live)
        queue.send(Message("a"))
        waiting.end()
        assert [message.body for message in waiting.received] == ["a"]
        connection.rollback()
    assert len(queue.peek()) == is_shared


@pytest.mark.parametrize("verb", ["send_batch", "abandon", "resubmit"])
def test_every_verb_that_makes_messages_ready_notifies(client: QueueClient, database: Database, verb: str) -> None:
    queue = client.queue("q")
    queue.send(Message("a"))
    (received,) = queue.receive()
    if verb == "resubmit":
        received.dead_letter("r")
    with psycopg.connect(database.dsn, autocommit=True) as listener:
        told = listener.execute("select channel from pgqueue._subscribe(array['q'], '1 minute')").fetchone()
        assert told is not None
        listener.execute(f"listen {told[0]}".encode())
        match verb:
            case "send_batch":
                queue.send_batch([Message("b"), Message("c")])
            case "abandon":
                received.abandon()
            case "resubmit":
                queue.dead_letters.resubmit()
        assert [notify.payload for notify in listener.notifies(timeout=20, stop_after=1)] == ["q"]


def test_a_queue_without_a_waiting_receiver_notifies_no_channel(client: QueueClient, database: Database) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as listener:
        for channel in range(16):
            listener.execute(f"listen pgqueue_{channel}".encode())
        client.queue("q").send(Message("a"))
        client.queue("q").send_batch([Message("a")])
        assert list(listener.notifies(timeout=0.2)) == []


def test_one_connection_listens_for_all_queues(client: QueueClient, database: Database) -> None:
    names = [f"q{number}" for number in range(20)]
    for name in names:
        client.create_queue(name)
    waiting = [Waiting(lambda name=name: client.queue(name).receive(wait=LONG)) for name in names]  # type: ignore[misc]
    for name in names:
        eventually(lambda name=name: is_awaited(database, name))  # type: ignore[misc]
    with database.connect(autocommit=True) as connection:
        hubs = connection.execute(f"select count(*) from {LISTENERS}".encode()).fetchone()
    for name in names:
        client.queue(name).send(Message(name))
    for waiter, name in zip(waiting, names, strict=True):
        waiter.end()
        assert [message.body for message in waiter.received] == [name]
    assert hubs == (1,)


def test_a_client_dropped_without_closing_leaves_no_connection_behind(database: Database) -> None:
    client = QueueClient(database.dsn)
    client.create_queue("q")
    assert client.queue("q").receive(wait=timedelta(milliseconds=300)) == []

    def hubs() -> int:
        with database.connect(autocommit=True) as connection:
            row = connection.execute(f"select count(*) from {LISTENERS}".encode()).fetchone()
        return int(row[0]) if row else 0

    assert hubs() == 1
    client._source._pool.close()  # type: ignore[attr-defined]  # a pool of its own complains when it is forgotten
    del client
    gc.collect()
    eventually(lambda: hubs() == 0)


def listening_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "pgqueue-notify-listener"}


def test_a_closed_client_does_not_listen_any_more(database: Database) -> None:
    others = listening_threads()  # of clients that other tests have left
    client = QueueClient(database.dsn)
    client.create_queue("q")
    client.queue("q").receive(wait=timedelta(milliseconds=300))
    (thread,) = listening_threads() - others
    client.close()
    assert not thread.is_alive()


def test_a_listener_notices_at_once_that_another_consumer_waits(database: Database) -> None:
    listener = NotifyListener(database.dsn)
    with database.connect(autocommit=True) as connection:
        assert not listener._wait(connection, 0)
        listener._wake_thread()
        assert listener._wait(connection, LONG.total_seconds())


def test_a_listener_works_in_a_process_with_many_open_files(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pause in ("SHORTEST_PAUSE", "LONGEST_PAUSE"):
        monkeypatch.setattr(f"pgqueue.statements.looking.{pause}", LONG.total_seconds())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        while stack.enter_context(Path(os.devnull).open()).fileno() < SELECTS_LIMIT:
            """Most numbers are taken."""
        client = stack.enter_context(QueueClient(database.dsn))
        client.create_queue("q")
        waiting = Waiting(lambda: client.queue("q").receive(wait=LONG))
        eventually(lambda: is_awaited(database))
        client.queue("q").send(Message("a"))
        waiting.end()
        assert [message.body for message in waiting.received] == ["a"]


def test_a_client_that_does_not_listen_polls(database: Database, client: QueueClient) -> None:
    with QueueClient(database.dsn, listen=False) as deaf:
        waiting = Waiting(lambda: deaf.queue("q").receive(wait=LONG))
        client.queue("q").send(Message("a"))
        waiting.end()
        assert [message.body for message in waiting.received] == ["a"]
        assert not is_awaited(database)


def test_a_hub_whose_connection_is_cut_listens_again(client: QueueClient, database: Database) -> None:
    queue = client.queue("q")
    cut = f"select pg_terminate_backend(pid) from {LISTENERS}".encode()
    waiting = Waiting(lambda: queue.receive(wait=LONG))
    wake_signal: Any = queue._source.wake_signal("q")
    eventually(lambda: wake_signal.is_live)
    with database.connect(autocommit=True) as connection:
        assert len(connection.execute(cut).fetchall()) == 1
    eventually(lambda: not wake_signal.is_live)
    eventually(lambda: wake_signal.is_live)
    queue.send(Message("a"))
    waiting.end()
    assert [message.body for message in waiting.received] == ["a"]


def test_a_listener_that_is_notified_too_often_unsubscribes_for_a_while(
    client: QueueClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One notification is too many here: how many come in a second depends on the machine."""
    monkeypatch.setattr("pgqueue.transports.notify_listener.MOST_NOTIFICATIONS_A_SECOND", 0)
    queue = client.queue("q")
    wake_signal: Any = queue._source.wake_signal("q")
    with wake_signal.calling(lambda: None, wake_signal.count):
        eventually(lambda: wake_signal.is_live)
        count = wake_signal.count
        with database.connect(autocommit=True) as connection:
            connection.execute("select pgqueue._notify(queue) from pgqueue.queue")
        eventually(lambda: not is_awaited(database))
        assert wake_signal.count > count
        eventually(lambda: is_awaited(database))


def test_a_receiver_that_is_briefly_busy_stays_subscribed(client: QueueClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver that waits only from time to time, as a worker does, counts as waiting in between."""
    monkeypatch.setattr("pgqueue.transports.wake_signals.RECENTLY", LONG.total_seconds())
    wake_signal: Any = client.queue("q")._source.wake_signal("q")
    wake_signal.wait(0, wake_signal.count)
    eventually(lambda: wake_signal.is_live)


def test_a_listener_that_ended_without_consumers_subscribes_at_once_when_one_waits(client: QueueClient) -> None:
    wake_signal: Any = client.queue("q")._source.wake_signal("q")
    own: Any = client.queue("q")._source
    with wake_signal.calling(lambda: None, wake_signal.count):
        eventually(lambda: wake_signal.is_live)
    own._listener._end_all()
    assert not wake_signal.is_live
    assert [each.is_due(time.monotonic()) for each in own._listener._known()] == [True]


def test_a_signal_that_was_set_before_the_wait_began_is_not_missed(client: QueueClient) -> None:
    wake_signal: Any = client.queue("q")._source.wake_signal("q")
    since = wake_signal.count
    wake_signal.set()
    wake_signal.wait(LONG.total_seconds(), since)


def test_an_outage_is_logged_once_and_its_end_once(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pgqueue")
    listener = NotifyListener("host=/nowhere")
    wake_signal = listener.wake_signal("q")
    for _ in range(3):  # receivers come and go, and so does their listening thread
        count = wake_signal.count
        with wake_signal.calling(lambda: None, count):
            eventually(lambda: wake_signal.count > count)  # noqa: B023 - it is called at once
        eventually(lambda: listener._thread is None)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    listener._conninfo = database.dsn
    with QueueClient(database.dsn) as client, wake_signal.calling(lambda: None, wake_signal.count):
        client.create_queue("q")
        eventually(lambda: wake_signal.is_live)
    listener.close()
    assert [record.getMessage()[:18] for record in caplog.records[1:]] == ["LISTEN works again"]


def test_a_hub_that_pauses_after_a_failure_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgqueue.transports.notify_listener.AFTER_FAILURES", Backoff(3600.0, 3600.0))
    listener = NotifyListener("host=/nowhere")
    wake_signal = listener.wake_signal("q")
    with wake_signal.calling(lambda: None, count := wake_signal.count):
        eventually(lambda: wake_signal.count > count)
        listener.close()
