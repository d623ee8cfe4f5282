"""The database is away for a while: the driver's side of a stream waits for it, and goes on with what it had."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import pgqueue.spark
from pgqueue import Message, QueueClient
from pgqueue.schema import migrate
from pgqueue.spark import claims, relations
from pgqueue.spark.claims import Held
from pgqueue.spark.connections import Instance
from pgqueue.spark.consuming import ConsumerSession
from pgqueue.spark.options import Options
from pgqueue.spark.tailing import OPTIONS, HistoryTail
from pgqueue.testing import Database, ThrowawayServer
from tests.chaos.proxy import Cut, Proxy

Settle = Callable[[Any, int], None]


@pytest.fixture
def client(database: Database) -> Iterator[QueueClient]:
    with QueueClient(database.dsn) as client, database.connect() as connection:
        client.create_queue("q", retain_history=timedelta(days=1))
        client.queue("q").send_batch([Message(1), Message(2)])
        connection.execute("create table effects (body text)")
        connection.commit()
        yield client


def session(dsn: str, *, releases: bool = True) -> Any:
    return closing(ConsumerSession(Instance(dsn), "ledger", "q", timedelta(minutes=5), releases=releases))


def effects(database: Database) -> int:
    with database.connect() as connection:
        return len(connection.execute("select from effects").fetchall())


def posting(dsn: str, held: Held, monkeypatch: pytest.MonkeyPatch, *, is_planned: bool = True) -> Settle:
    """Work as Spark calls it, with a batch of this claim, or without one."""
    monkeypatch.setattr(claims, "held_for", lambda _: {held.consumer: replace(held, is_planned=is_planned)})

    @pgqueue.spark.in_transaction("ledger", dsn=dsn)
    def post(_batch: Any, transaction: psycopg.Connection[Any]) -> None:
        transaction.execute("insert into effects values ('one')")

    return post


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_session_claims_on_after_a_restart_of_the_server(throwaway_server: ThrowawayServer, mode: str) -> None:
    dsn = throwaway_server.dsn("postgres")
    migrate(dsn)
    with QueueClient(dsn) as client:
        client.create_queue("q")
        client.queue("q").send_batch([Message(1), Message(2)])
    with session(dsn) as stream:
        assert stream.claim_batch(0, 1, None) == 1
        throwaway_server.restart(mode)
        stream.begin(1)
        throwaway_server.restart(mode)
        assert stream.claim_batch(1, 1, None) == 2


def test_a_session_waits_for_a_server_that_refuses(database: Database, client: QueueClient) -> None:
    with Proxy(database.dsn) as proxy, session(proxy.dsn) as stream:
        proxy.cut(Cut.BEFORE, b"pgqueue.claim_batch")
        proxy.refuse(3, after=b"pgqueue.claim_batch")
        assert stream.claim_batch(0, 1, None) == 1
        assert proxy.has_cut


@pytest.mark.parametrize("cut", Cut)
def test_effects_happen_once_though_the_connection_is_lost_at_their_commit(
    database: Database, client: QueueClient, monkeypatch: pytest.MonkeyPatch, cut: Cut
) -> None:
    with Proxy(database.dsn) as proxy, session(database.dsn) as stream:
        stream.claim_batch(0, 10, None)
        post = posting(proxy.dsn, stream.held, monkeypatch)
        proxy.cut(cut)
        proxy.refuse(2, after=b"insert into effects")
        post(None, 0)
        assert proxy.has_cut
    assert effects(database) == 1
    assert client.queue("q").peek() == []


@pytest.mark.parametrize("cut", Cut)
def test_effects_without_a_claim_happen_once_though_the_connection_is_lost_at_their_commit(
    database: Database, client: QueueClient, monkeypatch: pytest.MonkeyPatch, cut: Cut
) -> None:
    monkeypatch.setattr(claims, "name_of", lambda _batch, number: f"batch {number} of the query")
    with Proxy(database.dsn) as proxy, session(database.dsn) as stream:
        post = posting(proxy.dsn, stream.held, monkeypatch, is_planned=False)
        proxy.cut(cut)
        proxy.refuse(2, after=b"insert into effects")
        for _ in range(2):
            post(Mock(), 0)
        assert proxy.has_cut
    assert effects(database) == 1


@pytest.mark.parametrize("releases", [True, False])
def test_a_batch_that_has_lost_a_lock_is_given_back_or_fails(
    database: Database, client: QueueClient, monkeypatch: pytest.MonkeyPatch, releases: bool
) -> None:
    with session(database.dsn, releases=releases) as stream:
        stream.claim_batch(0, 10, None)
        database.move_clock(timedelta(minutes=6))
        (taken,) = client.queue("q").receive()
        post = posting(database.dsn, stream.held, monkeypatch)
        if not releases:
            with pytest.raises(psycopg.Error, match="has lost 1 of the 2 locks of claim 1"):
                post(None, 0)
        else:
            post(None, 0)
            assert [(message.body, message.delivery_count) for message in client.queue("q").receive()] == [(2, 1)]
        with database.connect() as connection:
            open_claim = connection.execute("select open_claim from pgqueue.consumers").fetchone()
        assert open_claim == (None if releases else 1,)
        taken.complete()
    assert effects(database) == 0


def test_a_reader_of_the_history_waits_for_a_server_that_refuses(database: Database, client: QueueClient) -> None:
    for message in client.queue("q").receive(max_messages=2):
        message.complete()
    with Proxy(database.dsn) as proxy:
        options = {"dsn": proxy.dsn, "table": "history"}
        tail = HistoryTail(options, relations.schema(Options(options, OPTIONS)))
        start = tail.initialOffset()
        proxy.cut(Cut.DURING, b"pgqueue.clock")
        proxy.refuse(2, after=b"pgqueue.clock")
        end = tail.latestOffset(start, ReadAllAvailable())
        assert proxy.has_cut
        proxy.cut(Cut.DURING, b"pg_relation_size")
        (part,) = tail.partitions(start, end)
        assert proxy.has_cut
        assert sum(batch.num_rows for batch in tail.read(part)) == 2
