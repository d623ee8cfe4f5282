"""``pgqueue bench`` measures with a queue of its own, and leaves nothing behind."""

from __future__ import annotations

import signal
from datetime import timedelta

import pytest

from pgqueue import Message, QueueClient
from pgqueue.cli import benching
from pgqueue.cli.failures import Failed
from tests.cli.command_line import CommandLine
from tests.patience import eventually

CALLS = [f"{verb}{how}" for how in ("", " 100 at once") for verb in ("send", "receive", "complete")]


def test_bench_prints_a_short_table_and_deletes_its_queue(pgqueue: CommandLine, client: QueueClient) -> None:
    ended = pgqueue("bench", "-n", "3")
    assert ended.code == 0
    assert "6 messages go through the queue pgqueue-bench, and through the WAL" in ended.err
    first, *table = ended.out.splitlines()
    assert first.startswith("PostgreSQL ")
    assert "synchronous_commit " in first
    assert "round trip " in first
    assert [line.split("  ")[0] for line in table[-6:]] == CALLS
    assert _queues(client) == ["orders"]


def test_bench_is_one_document_for_programs(pgqueue: CommandLine) -> None:
    document = pgqueue("bench", "--messages", "150", "--size", "10", "--queue", "mine", "--json").document
    assert document["round_trip"] > 0
    assert document["messages"] == 150
    assert [each["what"] for each in document["measured"]] == CALLS
    for each in document["measured"]:
        assert each["messages_per_second"] > 0
        assert 0 < each["median"] <= each["p95"] <= each["p99"]


def test_bench_leaves_a_queue_alone_that_exists(pgqueue: CommandLine, client: QueueClient) -> None:
    client.queue("orders").send(Message(1))
    ended = pgqueue("bench", "--queue", "orders")
    assert ended.code == 1
    assert "the queue orders exists and is left alone" in ended.err
    assert client.get_queue_runtime_properties("orders").ready == 1


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_bench_deletes_its_queue_when_it_is_stopped(
    pgqueue: CommandLine, client: QueueClient, sent: signal.Signals, code: int
) -> None:
    with pgqueue.start("bench", "--messages", "10000000", "--json") as bench:
        eventually(lambda: "pgqueue-bench" in _queues(client))
        eventually(lambda: client.get_queue_runtime_properties("pgqueue-bench").ready > 0)
        bench.send_signal(sent)
        out, err = bench.communicate(timeout=300)
    assert (bench.returncode, out, err) == (code, b"", b"")
    assert _queues(client) == ["orders"]


def test_bench_does_not_wait_for_ever(client: QueueClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benching, "PATIENCE", timedelta(milliseconds=10))
    client.pause_queue("orders")
    with pytest.raises(Failed, match="pgqueue doctor"):
        list(benching._measure(client.queue("orders"), 1, 1, 1, benching.Calls(1)))


def _queues(client: QueueClient) -> list[str]:
    return [queue.name for queue in client.list_queues()]
