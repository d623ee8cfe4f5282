from __future__ import annotations

import json
import re
import signal
from datetime import UTC, datetime, timedelta

import pytest

from pgqueue import Message, QueueClient, QueueRuntimeProperties
from pgqueue.cli import documents, output, stats, watching
from pgqueue.testing import Clock
from tests.cli.command_line import COMMAND, CommandLine
from tests.cli.terminal import Terminal


@pytest.fixture(autouse=True)
def some_of_each(client: QueueClient) -> None:
    orders = client.queue("orders")
    orders.send_batch([Message(number) for number in range(5)])
    first, second, _ = orders.receive(max_messages=3)
    first.dead_letter("Unreadable")
    second.complete()


def test_stats_count_the_messages_in_each_queue(pgqueue: CommandLine, client: QueueClient) -> None:
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
    with pgqueue.start("stats", "orders", "--watch", "--interval", "10ms", "--json") as process:
        assert process.stdout is not None
        assert _next_document(process.stdout)[0]["ready"] == 2
        client.queue("orders").send(Message(6))
        while _next_document(process.stdout)[0]["ready"] != 3:
            pass
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
    assert (process.returncode, said) == (0, b"")


def test_a_watch_at_a_terminal_has_a_screen_of_its_own_and_leaves_the_last_look(
    pgqueue: CommandLine, client: QueueClient
) -> None:
    arguments = [*COMMAND, "stats", "--watch", "--interval", "10ms"]
    environment = {**pgqueue.environment, "PYTHONUTF8": "1"}
    with Terminal(arguments, directory=pgqueue.directory, environment=environment) as terminal:
        terminal.wait_for("\x1b[?1049h")
        terminal.wait_for("all queues: in ")
        terminal.wait_for("█")
        client.queue("orders").send_batch([Message(number) for number in range(4321)])
        terminal.wait_for("4,323")
        terminal.type("\x03")
        assert terminal.wait() == 0
        left = terminal.shown.split("\x1b[?1049l")[1]
        assert "change/s" in left
        assert "trend" in left
        assert re.search(r"orders +4,323 ", left)
        assert "Traceback" not in terminal.shown


def test_a_watch_into_a_pipe_is_plain(pgqueue: CommandLine) -> None:
    with pgqueue.start("stats", "-w", "--interval", "10ms") as process:
        assert process.stdout is not None
        lines = [next(process.stdout).decode() for _ in range(10)]
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
    assert (process.returncode, said) == (0, b"")
    assert sum("ready" in line for line in lines) >= 2
    assert "\x1b" not in "".join(lines)


def test_rates_and_trends_are_those_of_the_last_looks() -> None:
    looks = watching.Looks()
    start = datetime(2026, 1, 31, tzinfo=UTC)
    for second in range(20):
        queues = [QueueRuntimeProperties("orders", 10 * second, 0, 0, 0, 0, 0, None)]
        if second == 19:
            queues.append(QueueRuntimeProperties("parcels", 0, 0, 0, 0, 0, 0, None))
        looks.add(watching.Look(start + timedelta(seconds=second), queues, came=100 * second, went=90 * second))
        if second == 0:
            assert (looks.rates(), looks.trends()["orders"].change) == ((0, 0), 0)
    assert looks.rates() == (100, 90)
    trends = looks.trends()
    assert (trends["orders"].change, trends["parcels"].change) == (10, 0)
    assert trends["orders"].line == watching.sparkline(range(80, 200, 10))
    assert len(trends["orders"].line) == watching.LENGTH
    assert trends["parcels"].line == " "
    assert watching.sparkline([0, 1, 50, 100]) == " ▁▄█"


def test_a_narrow_terminal_leaves_out_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = [QueueRuntimeProperties("orders", 5, 1, 0, 0, 0, 0, None)]
    trends = {"orders": watching.Trend(5, "▁█")}
    for columns, shown in (("120", True), ("50", False)):
        monkeypatch.setenv("COLUMNS", columns)
        heads = [column.header for column in documents.counts_table(queues, datetime.now(UTC), trends).columns]
        assert [heads[0], heads[1], heads[-1]] == ["queue", "ready", "bytes" if shown else "oldest"]
        assert ("scheduled" in heads) == shown


def _next_document(stream: object) -> list[dict[str, object]]:
    lines = []
    for line in stream:  # type: ignore[attr-defined]
        lines.append(line)
        if line == b"]\n":
            break
    document: list[dict[str, object]] = json.loads(b"".join(lines))
    return document
