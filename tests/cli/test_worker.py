from __future__ import annotations

import json
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgqueue import Message, QueueClient
from tests.cli.command_line import CommandLine

HANDLERS = """
import pathlib, time

def note(message):
    with open("handled", "a") as handled:
        print(message.body, file=handled, flush=True)

async def note_asynchronously(message):
    note(message)

def write(message, tx):
    tx.execute("create table if not exists written (body int)")
    tx.execute("insert into written values (%s)", [message.body])

def stay(message):
    note(message)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def handlers(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(HANDLERS)


@contextmanager
def worker(pgqueue: CommandLine, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with pgqueue.start("worker", *arguments) as process:
        try:
            yield process
        finally:
            process.kill()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)


def handled(directory: Path) -> list[str]:
    file = directory / "handled"
    return sorted(file.read_text().split()) if file.exists() else []


@pytest.mark.parametrize("handler", ["note", "note_asynchronously"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_worker_works_until_it_is_asked_to_stop(
    pgqueue: CommandLine, client: QueueClient, tmp_path: Path, handler: str, number: signal.Signals
) -> None:
    orders = client.queue("orders")
    orders.send_batch([Message(body) for body in (1, 2, 3)])
    with worker(pgqueue, f"shop:{handler}", "orders") as process:
        until(lambda: orders.peek() == [])
        process.send_signal(number)
        said, log = process.communicate(timeout=300)
    assert (process.returncode, said) == (0, b"stopped\n"), log
    assert handled(tmp_path) == ["1", "2", "3"]


def test_a_handler_that_takes_a_transaction_gets_one(pgqueue: CommandLine, client: QueueClient) -> None:
    client.queue("orders").send(Message(7))
    options = ["--transaction-batch", "3", "--concurrency", "2", "--handler-timeout", "1m", "--sweep-interval", "1m"]
    with worker(pgqueue, "shop:write", "orders", *options) as process:
        until(lambda: client.queue("orders").peek() == [])
        process.terminate()
        assert process.wait(300) == 0


def test_a_second_signal_ends_it_at_once(pgqueue: CommandLine, client: QueueClient, tmp_path: Path) -> None:
    client.queue("orders").send(Message(1))
    with worker(pgqueue, "shop:stay", "orders") as process:
        until(lambda: handled(tmp_path) == ["1"])
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        until(lambda: b"stopping" in process.stderr.readline())  # type: ignore[union-attr]
        process.send_signal(signal.SIGTERM)
        assert process.wait(300) == 128 + signal.SIGTERM
    assert len(client.queue("orders").peek()) == 1


@pytest.mark.parametrize("handler", ["note", "note_asynchronously"])
def test_a_probe_is_answered(pgqueue: CommandLine, client: QueueClient, handler: str) -> None:
    client.queue("orders").send(Message(1))
    with worker(pgqueue, f"shop:{handler}", "orders", "--health-port", "0") as process:
        assert process.stdout is not None
        said = process.stdout.readline().decode()
        port = said.removeprefix("health on port ").strip()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=300) as answer:
            assert json.load(answer)["is_alive"] is True
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=300) as answer:
            assert b'pgqueue_queue_dead_letters{queue="orders"} 0.0' in answer.read()
        until(lambda: client.queue("orders").peek() == [])
        process.terminate()
        assert process.wait(300) == 0


def test_what_does_not_end_in_time_does_not_keep_the_process(
    pgqueue: CommandLine, client: QueueClient, tmp_path: Path
) -> None:
    client.queue("orders").send(Message(1))
    with worker(pgqueue, "shop:stay", "orders", "--grace-period", "100ms", "--health-file", "health") as process:
        until(lambda: handled(tmp_path) == ["1"])
        until((tmp_path / "health").exists)
        process.terminate()
        assert process.wait(300) == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["shop.note", "orders"], "write module:function"),
        (["shop:missing", "orders"], "shop has no missing"),
        (["nowhere:note", "orders"], "no module nowhere"),
        (["shop:pathlib", "orders"], "is not a function"),
        (["shop:note", "orders", "--transaction", "psycopg"], "handler(message, tx)"),
        (["shop:write", "orders", "--transaction", "oracle"], "psycopg"),
        (["shop:note", "nowhere"], "queue create"),
        (["shop:note", "orders", "--processes", "0"], "--processes"),
        (["shop:note", "orders", "--processes", "many"], "--processes"),
        (["shop:note", "nowhere", "--processes", "2"], "queue create"),
    ],
    ids=lambda part: part if isinstance(part, str) else " ".join(part),
)
def test_what_cannot_be_run_is_told_in_a_line(
    pgqueue: CommandLine, client: QueueClient, arguments: list[str], complaint: str
) -> None:
    assert client.list_queues()
    assert complaint in pgqueue("worker", *arguments).only_error


def test_a_module_that_cannot_be_imported_says_why(pgqueue: CommandLine, client: QueueClient, tmp_path: Path) -> None:
    assert client.list_queues()
    (tmp_path / "broken.py").write_text("import nothing_of_that_name")
    assert "nothing_of_that_name" in pgqueue("worker", "broken:note", "orders").only_error
