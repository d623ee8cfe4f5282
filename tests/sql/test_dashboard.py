"""The dashboard's basis in SQL: messages found by state, samples, the audit log, and two verbs for repairs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from pgqueue import LockLostError, Message, QueueClient
from pgqueue.testing import Database

NEVER = datetime(2099, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def client(database: Database) -> Iterator[QueueClient]:
    with QueueClient(database.dsn) as client:
        client.create_queue("orders", retain_history=timedelta(days=1), max_delivery_count=2)
        yield client


@pytest.fixture
def connection(database: Database) -> Iterator[psycopg.Connection[dict[str, Any]]]:
    with database.connect(autocommit=True, row_factory=dict_row) as connection:
        yield connection


def found(connection: psycopg.Connection[dict[str, Any]], **arguments: Any) -> list[tuple[int, str | None]]:
    given = "".join(f", {name} => %({name})s" for name in arguments)
    rows = connection.execute(f"select * from pgqueue.find_messages('orders'{given})".encode(), arguments).fetchall()
    return [(row["sequence_number"], row["state"]) for row in rows]


def dead_letter(client: QueueClient, reason: str) -> int:
    orders = client.queue("orders")
    orders.send(Message(reason, priority=-1))
    (received,) = orders.receive()
    received.dead_letter(reason)
    return received.sequence_number


def test_a_message_is_found_by_its_state(client: QueueClient, connection: psycopg.Connection[dict[str, Any]]) -> None:
    orders = client.queue("orders")
    numbers = {
        "SCHEDULED": orders.schedule(Message(1), at=NEVER),
        "DEAD_LETTERED": dead_letter(client, "Odd"),
        "LOCKED": orders.send(Message(2)),
    }
    orders.receive()
    numbers["DEFERRED"] = orders.send(Message(3))
    for received in orders.receive():
        received.defer()
    numbers["EXPIRED"] = orders.send(Message(4, time_to_live=timedelta(microseconds=1)))
    numbers["READY"] = orders.send(Message(5))
    for state, number in numbers.items():
        assert found(connection, state=state) == [(number, state)]
    living = {number: state for state, number in numbers.items() if state != "DEAD_LETTERED"}
    assert found(connection) == sorted(living.items())


def test_messages_are_paged_by_number_and_filtered(
    client: QueueClient, connection: psycopg.Connection[dict[str, Any]]
) -> None:
    orders = client.queue("orders")
    numbers = orders.send_batch([Message(n, subject="even" if n % 2 == 0 else "odd") for n in range(10)])
    even = [(number, "READY") for number in numbers[::2]]
    assert found(connection, subject="even", max_messages=3) == even[:3]
    assert found(connection, subject="even", after=even[2][0]) == even[3:]


def test_a_search_that_reads_too_much_returns_how_far_it_came(
    client: QueueClient, connection: psycopg.Connection[dict[str, Any]]
) -> None:
    *_, ninth, last = client.queue("orders").send_batch(
        [Message(n, subject="last" if n == 9 else None) for n in range(10)]
    )
    assert found(connection, subject="last", max_read=9) == [(ninth, None)]
    assert found(connection, subject="last", max_read=9, after=ninth) == [(last, "READY")]


def test_an_unknown_state_is_refused(client: QueueClient, connection: psycopg.Connection[dict[str, Any]]) -> None:
    with pytest.raises(psycopg.Error, match=r"state must be READY, .* or DEAD_LETTERED, not GONE"):
        found(connection, state="GONE")


def test_dead_letters_are_purged_by_number_and_by_reason(
    client: QueueClient, connection: psycopg.Connection[dict[str, Any]]
) -> None:
    odd, other, third = (dead_letter(client, reason) for reason in ("Odd", "Other", "Odd"))
    purge = "select pgqueue.purge_dead_letters('orders', %s, %s) as number"
    assert connection.execute(purge, [[odd, other], "Odd"]).fetchall() == [{"number": odd}]
    assert connection.execute(purge, [None, "Odd"]).fetchall() == [{"number": third}]
    assert found(connection, state="DEAD_LETTERED") == [(other, "DEAD_LETTERED")]


def test_a_dead_letter_that_a_receiver_holds_is_not_purged(
    client: QueueClient, connection: psycopg.Connection[dict[str, Any]]
) -> None:
    dead_letter(client, "Odd")
    (held,) = client.queue("orders").dead_letters.receive()
    assert connection.execute("select pgqueue.purge_dead_letters('orders')").fetchall() == []
    held.complete()


def test_a_scheduled_message_gets_another_time_and_keeps_its_number(
    client: QueueClient, connection: psycopg.Connection[dict[str, Any]], database: Database
) -> None:
    orders = client.queue("orders")
    number = orders.schedule(Message(1, time_to_live=timedelta(hours=1)), at=NEVER)
    connection.execute("select pgqueue.reschedule('orders', %s, pgqueue.clock() + interval '1 minute')", [number])
    assert orders.receive() == []
    database.move_clock(2 * MINUTE)
    (received,) = orders.receive()
    assert received.sequence_number == number
    assert received.expires_at is not None
    assert received.expires_at < NEVER
    with pytest.raises(psycopg.Error, match="scheduled"):
        connection.execute("select pgqueue.reschedule('orders', %s, now())", [number])


def test_a_sample_counts_and_measures_the_minute_before(
    client: QueueClient, connection: psycopg.Connection[dict[str, Any]], database: Database
) -> None:
    client.create_queue("forgetful")
    orders = client.queue("orders")
    orders.send_batch([Message(n) for n in range(4)])
    for received in orders.receive(max_messages=3):
        received.complete()
    database.move_clock(MINUTE)
    assert connection.execute("select pgqueue.take_sample()").fetchone() == {"take_sample": 2}
    assert connection.execute("select pgqueue.take_sample()").fetchone() == {"take_sample": 0}, (
        "a minute has one sample"
    )
    forgetful, sampled = connection.execute("select * from pgqueue.samples order by queue").fetchall()
    assert (forgetful["settled"], forgetful["waited"]) == (None, None)
    assert (sampled["ready"], sampled["settled"], sampled["is_exact"]) == (1, 3, True)
    assert len(sampled["waited"]) == len(sampled["worked"]) == 3
    assert all(0 <= seconds < 60 for seconds in [*sampled["waited"], *sampled["worked"]])


def test_samples_are_kept_for_a_week_of_the_busiest_queues(
    client: QueueClient, connection: psycopg.Connection[dict[str, Any]], database: Database
) -> None:
    client.create_queue("empty")
    client.queue("orders").send(Message(1))
    for _ in range(2):
        connection.execute("select pgqueue.take_sample(1)")
        database.move_clock(timedelta(days=5))
    assert connection.execute("select queue, count(*) from pgqueue.samples group by queue").fetchall() == [
        {"queue": "orders", "count": 2}
    ]
    connection.execute("select pgqueue.take_sample(1)")
    assert connection.execute("select count(*) from pgqueue.samples").fetchone() == {"count": 2}


def test_an_action_is_recorded_with_what_it_did_or_not_at_all(
    client: QueueClient, connection: psycopg.Connection[dict[str, Any]]
) -> None:
    client.queue("orders").send(Message(1))
    (received,) = client.queue("orders").receive()
    for outcome in (psycopg.Rollback, None):
        with connection.transaction():
            connection.execute("select pgqueue.unlock('orders', %s)", [received.sequence_number])
            connection.execute("""select pgqueue.record_action('unlock', 'orders', 1, '{"why": "stuck"}')""")
            if outcome is not None:
                raise outcome
    with pytest.raises(LockLostError):
        received.complete()
    (entry,) = connection.execute("select action, queue, messages, details from pgqueue.audit_log").fetchall()
    assert entry == {"action": "unlock", "queue": "orders", "messages": 1, "details": {"why": "stuck"}}
