from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from pgqueue import Message, QueueClient
from pgqueue.cli.reloading import run_reloading
from pgqueue.testing import Database
from tests.cli.command_line import CommandLine
from tests.patience import eventually

HANDLERS = """
import pathlib, time
from pgqueue import Handlers
from psycopg import Connection
from sqlalchemy import text
from sqlalchemy.orm import Session

def note(message):
    with open("handled", "a") as handled:
        print(message.body, file=handled, flush=True)

async def note_asynchronously(message):
    note(message)

def write(message, tx):
    tx.execute("create table if not exists written (body int)")
    tx.execute("insert into written values (%s)", [message.body])

def store(message, session: "Session"):
    session.execute(text("create table if not exists written (body int)"))
    session.execute(text("insert into written values (:body)"), {"body": message.body})

def demand(message, tx: Connection):
    write(message, tx)

def stay(message):
    note(message)
    time.sleep(60)

class Unpayable(Exception):
    pass

def refuse(message):
    raise Unpayable("no money")

app = Handlers()
app.handler("orders", subject="paid")(write)
app.handler("orders")(note)
app.handler("returns")(note)
atasks = Handlers()
atasks.handler("orders")(note_asynchronously)
atasks.handler("returns")(note)
mixed = Handlers()
mixed.handler("orders")(write)

@mixed.handler("returns")
async def asynchronously(message, tx):
    pass
"""

SIGNALLED_WHEN_ANNOUNCED = """
import logging, os, signal
from shop import note, note_asynchronously

def announced(record):
    if record.getMessage().startswith("serving orders, "):
        os.kill(os.getpid(), signal.SIGTERM)
    return True

logging.getLogger("pgqueue").addFilter(announced)
"""


TASKS = """
from pgqueue import QueueClient, Tasks
tasks = Tasks(QueueClient(""))

@tasks.periodic(cron="0 0 * * *", name="nightly")
@tasks.task(queue="orders")
def note(what: str = "nothing"):
    with open("handled", "a") as handled:
        print("VERSION", what, sep="-", file=handled, flush=True)
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
        eventually(lambda: orders.peek() == [])
        process.send_signal(number)
        said, log = process.communicate(timeout=300)
    assert (process.returncode, said) == (0, b"stopped\n"), log
    assert handled(tmp_path) == ["1", "2", "3"]


@pytest.mark.parametrize("handler", ["note", "note_asynchronously"])
def test_a_signal_before_the_first_claim_stops_it_as_any_other(
    pgqueue: CommandLine, client: QueueClient, tmp_path: Path, handler: str
) -> None:
    (tmp_path / "early.py").write_text(SIGNALLED_WHEN_ANNOUNCED)
    client.queue("orders").send(Message(1))
    with worker(pgqueue, f"early:{handler}", "orders") as process:
        said, log = process.communicate(timeout=300)
    assert (process.returncode, said) == (0, b"stopped\n"), log
    assert b"SIGTERM: stopping" in log
    assert handled(tmp_path) == []


@pytest.mark.parametrize("face", ["pgqueue", "pgqueue.aio"])
@pytest.mark.parametrize("arguments", [[], ["orders"], ["--processes", "2"]], ids=" ".join)
def test_tasks_are_run_and_their_schedules_declared(
    pgqueue: CommandLine, client: QueueClient, tmp_path: Path, arguments: list[str], face: str
) -> None:
    (tmp_path / "jobs.py").write_text(TASKS.replace("from pgqueue ", f"from {face} "))
    orders = client.queue("orders")
    orders.send(Message({"what": "a"}, subject="note"))
    with worker(pgqueue, "jobs:tasks", *arguments) as process:
        eventually(lambda: orders.peek() == [])
        process.send_signal(signal.SIGTERM)
        log = process.communicate(timeout=300)[1]
    assert process.returncode == 0, log
    assert handled(tmp_path) == ["VERSION-a"]
    assert [(schedule.name, schedule.message.body) for schedule in client.list_schedules()] == [
        ("nightly", {"what": "nothing"})
    ]


def test_a_worker_is_restarted_when_a_module_changes(pgqueue: CommandLine, client: QueueClient, tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(TASKS)
    orders = client.queue("orders")
    orders.send(Message({"what": "a"}, subject="note"))
    with worker(pgqueue, "jobs:tasks", "--reload") as process:
        eventually(lambda: handled(tmp_path) == ["VERSION-a"])
        (tmp_path / "jobs.py").write_text(TASKS.replace("VERSION", "another"))
        assert process.stdout is not None
        assert process.stdout.readline() == b"jobs.py has changed: restarting\n"
        assert process.stdout.readline() == b"stopped\n"
        orders.send(Message({"what": "b"}, subject="note"))
        eventually(lambda: handled(tmp_path) == ["VERSION-a", "another-b"])
        process.send_signal(signal.SIGTERM)
        log = process.communicate(timeout=300)[1]
    assert process.returncode == 0, log


def test_reloading_repeats_the_command_as_it_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.orig_argv", ["python", "manage.py", "pgqueue_tasks", "default", "--reload"])
    monkeypatch.setattr("watchfiles.run_process", lambda *_, target, **__: started.append(target))
    started: list[str] = []
    run_reloading()
    assert started == [f"{sys.executable} manage.py pgqueue_tasks default"]


def test_reloading_needs_its_extra(pgqueue: CommandLine, client: QueueClient, tmp_path: Path) -> None:
    (tmp_path / "watchfiles.py").write_text("raise ImportError")
    ended = pgqueue("worker", "shop:note", "orders", "--reload", PYTHONPATH=str(tmp_path))
    assert ended.only_error == "pgqueue: --reload needs the extra reload: pip install 'pgqueue-tx[reload]'"


def test_a_worker_that_was_killed_is_missing_until_a_sweep_removes_it(
    pgqueue: CommandLine, client: QueueClient, database: Database
) -> None:
    def shown() -> list[tuple[object, ...]]:
        with database.connect() as connection:
            return connection.execute("select pid, state from pgqueue.workers").fetchall()

    with worker(pgqueue, "shop:note", "orders") as process:
        eventually(lambda: shown() == [(process.pid, "SERVING")])
        process.kill()
        process.wait()
    database.move_clock(timedelta(seconds=61))
    assert shown() == [(process.pid, "MISSING")]
    assert client.sweep().forgotten == 0
    database.move_clock(timedelta(hours=1))
    assert client.sweep().forgotten == 1
    assert shown() == []


def test_a_handler_that_takes_a_transaction_gets_one(pgqueue: CommandLine, client: QueueClient) -> None:
    client.queue("orders").send(Message(7))
    options = ["--transaction-batch", "3", "--concurrency", "2", "--handler-timeout", "1m", "--sweep-interval", "1m"]
    with worker(pgqueue, "shop:write", "orders", *options) as process:
        eventually(lambda: client.queue("orders").peek() == [])
        process.terminate()
        assert process.wait(300) == 0


@pytest.mark.parametrize("handler", ["store", "demand"])
def test_a_handler_gets_the_transaction_that_its_annotation_asks_for(
    pgqueue: CommandLine, client: QueueClient, handler: str
) -> None:
    client.queue("orders").send(Message(7))
    with worker(pgqueue, f"shop:{handler}", "orders") as process:
        eventually(lambda: client.queue("orders").peek() == [])
        process.terminate()
        assert process.wait(300) == 0


def test_a_handler_that_would_get_another_kind_of_transaction_is_refused(
    pgqueue: CommandLine, client: QueueClient
) -> None:
    ended = pgqueue("worker", "shop:store", "orders", "--transaction", "psycopg")
    assert ended.code == 2
    assert "shop.store asks for a transaction of sqlalchemy, and 'psycopg' was given" in ended.only_error


def test_sessions_are_worked_in_their_order(pgqueue: CommandLine, client: QueueClient, tmp_path: Path) -> None:
    client.create_queue("steps", requires_session=True)
    steps = client.queue("steps")
    steps.send_batch([Message(number, session_id="a") for number in (1, 2, 3)])
    with worker(
        pgqueue, "shop:note", "steps", "--session-idle-timeout", "1s", "--max-messages-per-session", "2"
    ) as process:
        eventually(lambda: steps.peek() == [])
        process.terminate()
        assert process.wait(300) == 0
    assert handled(tmp_path) == ["1", "2", "3"]


def test_a_second_signal_ends_it_at_once(pgqueue: CommandLine, client: QueueClient, tmp_path: Path) -> None:
    client.queue("orders").send(Message(1))
    with worker(pgqueue, "shop:stay", "orders") as process:
        eventually(lambda: handled(tmp_path) == ["1"])
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        eventually(lambda: b"stopping" in process.stderr.readline())  # type: ignore[union-attr]
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
        eventually(lambda: client.queue("orders").peek() == [])
        process.terminate()
        assert process.wait(300) == 0


def test_a_handler_that_outlives_the_grace_period_does_not_keep_the_process(
    pgqueue: CommandLine, client: QueueClient, tmp_path: Path
) -> None:
    client.queue("orders").send(Message(1))
    with worker(pgqueue, "shop:stay", "orders", "--grace-period", "100ms", "--health-file", "health") as process:
        eventually(lambda: handled(tmp_path) == ["1"])
        eventually((tmp_path / "health").exists)
        process.terminate()
        assert process.wait(300) == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["shop.note", "orders"], "write module:name"),
        (["shop:missing", "orders"], "shop has no missing"),
        (["nowhere:note", "orders"], "no module nowhere"),
        (["shop:pathlib", "orders"], "is not a function, nor Handlers"),
        (["shop:note"], "shop:note is a function: name the queue"),
        (["jobs:note"], "jobs:note is a task: name the Tasks that have it"),
        (["jobs:note", "orders"], "jobs:note is a task: name the Tasks that have it"),
        (["shop:app", "nowhere"], "no handler for 'nowhere': the queues with handlers are orders, returns"),
        (["shop:app"], "returns"),  # which does not exist
        (["shop:mixed", "orders", "returns"], "must be coroutine functions, or none: shop.write is not one"),
        (["shop.py:note", "orders"], "write shop:note, without .py"),
        (["shop:note", "orders", "--max-delay", "1ms"], "max_delay"),
        (["shop:note", "orders", "--dead-letter-on", "shop:note"], "names no exception"),
        (["shop:note", "orders", "--dead-letter-on", "Nothing"], "names no exception"),
        (["shop:note", "orders", "--log-level", "loud"], "--log-level"),
        (["shop:note", "orders", "--transaction", "psycopg"], "handler(message, tx)"),
        (["shop:write", "orders", "--transaction", "oracle"], "psycopg"),
        (["shop:note", "nowhere"], "queue create"),
        (["shop:note", "orders", "--processes", "0"], "--processes"),
        (["shop:note", "orders", "--processes", "many"], "--processes"),
        (["shop:note", "nowhere", "--processes", "2"], "queue create"),
    ],
    ids=lambda part: part if isinstance(part, str) else " ".join(part),
)
def test_a_worker_that_cannot_start_is_reported_in_one_line(
    pgqueue: CommandLine, client: QueueClient, tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    assert client.list_queues()
    (tmp_path / "jobs.py").write_text(TASKS)
    assert complaint in pgqueue("worker", *arguments).only_error


def test_a_module_that_cannot_be_imported_is_reported_with_the_reason(
    pgqueue: CommandLine, client: QueueClient, tmp_path: Path
) -> None:
    assert client.list_queues()
    (tmp_path / "broken.py").write_text("import nothing_of_that_name")
    assert "nothing_of_that_name" in pgqueue("worker", "broken:note", "orders").only_error


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("app", ["app", "atasks"])
def test_handlers_of_several_queues_work_until_sigterm(
    pgqueue: CommandLine, client: QueueClient, tmp_path: Path, app: str, processes: str
) -> None:
    client.create_queue("returns")
    orders, returns = client.queue("orders"), client.queue("returns")
    orders.send_batch([Message(1), Message(2, subject="paid" if app == "app" else None)])
    returns.send(Message(3))
    with worker(pgqueue, f"shop:{app}", "--processes", processes, "--health-port", "0") as process:
        assert process.stdout is not None
        port = process.stdout.readline().decode().removeprefix("health on port ").strip()
        eventually(lambda: orders.peek() == returns.peek() == [])

        def page() -> bytes:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=300) as answer:
                return bytes(answer.read())

        eventually(
            lambda: all(b'pgqueue_queue_ready{queue="%s"} 0.0' % name in page() for name in (b"orders", b"returns"))
        )
        process.terminate()
        said, log = process.communicate(timeout=300)
    assert (process.returncode, said) == (0, b"stopped\n"), log
    assert handled(tmp_path) == (["1", "3"] if app == "app" else ["1", "2", "3"])
    assert b"serving orders, returns, 8 at a time each" in log
    if app == "app":
        assert b"serving orders, subject 'paid': shop.write(message, tx)" in log


def test_only_some_queues_of_an_app_are_served(pgqueue: CommandLine, client: QueueClient, tmp_path: Path) -> None:
    client.queue("orders").send(Message(1))
    with worker(pgqueue, "shop:app", "orders") as process:  # there is no queue returns
        eventually(lambda: client.queue("orders").peek() == [])
        process.terminate()
        assert process.wait(300) == 0


def test_one_function_serves_several_queues(pgqueue: CommandLine, client: QueueClient, tmp_path: Path) -> None:
    client.create_queue("returns")
    client.queue("orders").send(Message(1))
    client.queue("returns").send(Message(2))
    with worker(pgqueue, "shop:note", "orders", "returns") as process:
        eventually(lambda: handled(tmp_path) == ["1", "2"])
        process.terminate()
        assert process.wait(300) == 0


def test_the_retry_policy_and_the_log_have_options(pgqueue: CommandLine, client: QueueClient) -> None:
    orders = client.queue("orders")
    orders.send(Message(1))
    retries = ["--transaction-attempts", "2", "--first-delay", "10ms", "--max-delay", "20ms", "--jitter", "0"]
    with worker(
        pgqueue,
        "shop:refuse",
        "orders",
        *retries,
        "--max-attempts",
        "2",
        "--log-level",
        "warning",
        "--log-format",
        "json",
    ) as process:
        eventually(lambda: len(orders.dead_letters.peek()) == 1)
        process.terminate()
        _, log = process.communicate(timeout=300)
    (dead,) = orders.dead_letters.peek()
    assert (dead.dead_letter_reason, dead.delivery_count) == ("shop.Unpayable", 2)
    first, last = [json.loads(line) for line in log.splitlines()]
    assert (first["level"], first["logger"], first["queue"], first["delivery_count"]) == (
        "warning",
        "pgqueue",
        "orders",
        1,
    )
    assert "shop.Unpayable: no money" in first["exception"]
    assert last["delivery_count"] == 2


@pytest.mark.parametrize("error", ["shop:Unpayable", "Exception"])
def test_an_exception_that_is_named_dead_letters_at_once(pgqueue: CommandLine, client: QueueClient, error: str) -> None:
    orders = client.queue("orders")
    orders.send(Message(1))
    with worker(pgqueue, "shop:refuse", "orders", "--dead-letter-on", "KeyError", "--dead-letter-on", error) as process:
        eventually(lambda: len(orders.dead_letters.peek()) == 1)
        process.terminate()
        assert process.wait(300) == 0
    (dead,) = orders.dead_letters.peek()
    assert dead.delivery_count == 1


def test_several_processes_stop_without_the_extra_for_metrics(
    pgqueue: CommandLine, client: QueueClient, tmp_path: Path
) -> None:
    (tmp_path / "prometheus_client.py").write_text(
        "raise ModuleNotFoundError('there is none', name='prometheus_client')"
    )
    client.queue("orders").send(Message(1))
    pgqueue.environment["PYTHONPATH"] = str(tmp_path)
    with worker(pgqueue, "shop:note", "orders", "--processes", "2") as process:
        eventually(lambda: client.queue("orders").peek() == [])
        process.terminate()
        _, log = process.communicate(timeout=300)
    assert process.returncode == 0, log
