from __future__ import annotations

import json
import re
import signal
from datetime import UTC, datetime, timedelta

import pytest

from pgqueue import Message, QueueClient, QueueRuntimeProperties
from pgqueue.cli import documents, output, stats
from pgqueue.testing import Clock
from tests.cli.command_line import CommandLine


@pytest.fixture(autouse=True)
def some_of_each(client: QueueClient) -> None:
    orders = client.queue("orders")
    orders.send_batch([Message(number) for number in range(5)])
    first, second, _ = orders.receive(max_messages=3)
    first.dead_letter("Unreadable")
    second.complete()


def test_stats_count_what_is_in_each_queue(pgqueue: CommandLine, client: QueueClient) -> None:
    client.create_queue("parcels")
    orders, parcels = pgqueue("stats", "--json").document
    assert (orders["name"], orders["ready"], orders["locked"], orders["dead_letters"]) == ("orders", 2, 1, 1)
    assert (parcels["name"], parcels["ready"], parcels["oldest_enqueued_time"]) == ("parcels", 0, None)
    assert orders.keys() >= {"deferred", "expired", "scheduled"}
    assert orders["size_in_bytes"] > parcels["size_in_bytes"] == 0
    assert pgqueue("queue", "show", "orders", "--json").document["size_in_bytes"] == orders["size_in_bytes"]


@pytest.mark.parametrize("columns", ["80", "120"])
def test_stats_are_a_table_for_people(pgqueue: CommandLine, client: QueueClient, clock: Clock, columns: str) -> None:
    orders = client.queue("orders")
    orders.receive()[0].defer()
    orders.schedule(Message(5), at=clock.now() + timedelta(days=1))
    orders.send(Message(6, time_to_live=timedelta(seconds=1)))
    clock.move(timedelta(seconds=5))
    (counts,) = pgqueue("stats", "orders", "--json").document
    numbers = [counts[name] for name in ("ready", "locked", "deferred", "expired", "scheduled", "dead_letters")]
    assert numbers == [1, 1, 1, 1, 1, 1]
    told = pgqueue("stats", COLUMNS=columns).out
    assert re.search("queue +ready +locked +deferred +expired +scheduled +letters +oldest", told)
    assert re.search("^orders +1 +1 +1 +1 +1 +1 ", told, re.MULTILINE)
    assert max(map(len, told.splitlines())) <= int(columns)


def test_stats_of_one_queue(pgqueue: CommandLine, client: QueueClient) -> None:
    client.create_queue("parcels")
    assert [queue["name"] for queue in pgqueue("stats", "parcels", "--json").document] == ["parcels"]
    assert "queue create" in pgqueue("stats", "nowhere").only_error


def test_all_messages_are_counted_on_demand(pgqueue: CommandLine) -> None:
    (counted,) = pgqueue("stats", "--exact", "--json").document
    assert counted["is_exact"] is True
    assert pgqueue("stats", "--json").document == [counted]


def test_estimates_are_marked_and_a_watch_shows_as_many_queues_as_fit() -> None:
    lines = output.console().height
    queues = [QueueRuntimeProperties(f"queue-{n}", n, 0, 0, 0, 0, 0, None, is_exact=n > 0) for n in range(lines)]
    assert stats.that_fit(queues[:3]) == queues[:3]
    assert stats.that_fit(queues) == queues[: stats.HEADING - 1 : -1]
    for shown, marks in ((queues, ["estimate", *["-"] * (lines - 1)]), (queues[1:], None)):
        columns = {column.header: column for column in documents.counts_table(shown, datetime.now(UTC)).columns}
        assert ("counts" in columns) == (marks is not None)
        assert marks is None or [str(cell) for cell in columns["counts"].cells] == marks


def test_stats_of_no_queue_are_none(pgqueue: CommandLine, client: QueueClient) -> None:
    client.delete_queue("orders")
    assert pgqueue("stats", "--json").document == []
    assert pgqueue("stats").code == 0


def test_a_watch_looks_again_until_it_is_interrupted(pgqueue: CommandLine, client: QueueClient) -> None:
    with pgqueue.start("stats", "orders", "--watch", "--interval", "10ms", "--json") as watching:
        assert watching.stdout is not None
        assert _next_document(watching.stdout)[0]["ready"] == 2
        client.queue("orders").send(Message(6))
        while _next_document(watching.stdout)[0]["ready"] != 3:
            pass
        watching.send_signal(signal.SIGINT)
        _, said = watching.communicate(timeout=300)
    assert (watching.returncode, said) == (0, b"")


def _next_document(stream: object) -> list[dict[str, object]]:
    lines = []
    for line in stream:  # type: ignore[attr-defined]
        lines.append(line)
        if line == b"]\n":
            break
    document: list[dict[str, object]] = json.loads(b"".join(lines))
    return document
