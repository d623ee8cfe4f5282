"""Slow commands show progress on a terminal, and nowhere else."""

from __future__ import annotations

import threading

from pgqueue import QueueClient
from pgqueue.cli import migration
from pgqueue.cli.progress import Step
from pgqueue.testing import Database
from tests.cli.command_line import COMMAND, CommandLine
from tests.cli.terminal import Terminal
from tests.patience import eventually


def test_a_terminal_shows_what_a_command_does_until_it_is_done(
    pgqueue: CommandLine, client: QueueClient, database: Database
) -> None:
    with database.connect() as other:
        other.execute("lock table pgqueue.dead_letter in access exclusive mode")
        arguments = [*COMMAND, "dead-letters", "resubmit", "orders"]
        with Terminal(arguments, directory=pgqueue.directory, environment=pgqueue.environment) as terminal:
            terminal.wait_for("sending dead letters back to orders")
            other.rollback()
            assert terminal.wait() == 0
            last = terminal.shown.splitlines()[-1]
            assert last.endswith("0 dead letters sent back to orders")


def test_json_and_pipes_show_nothing_of_it(pgqueue: CommandLine, client: QueueClient, database: Database) -> None:
    with database.connect() as other:
        other.execute("lock table pgqueue.dead_letter in access exclusive mode")
        arguments = [*COMMAND, "dead-letters", "resubmit", "orders"]
        directory, environment = pgqueue.directory, pgqueue.environment
        with (
            Terminal([*arguments, "--json"], directory=directory, environment=environment) as terminal,
            pgqueue.start("dead-letters", "resubmit", "orders") as piped,
        ):
            _wait_for_two(database)
            other.rollback()
            assert terminal.wait() == 0
            assert terminal.shown.replace("\r\n", "\n") == '{\n  "queue": "orders",\n  "sequence_numbers": []\n}\n'
            assert piped.communicate(timeout=300) == (b"0 dead letters sent back to orders\n", b"")


def test_migrate_measures_the_index_that_is_being_built(client: QueueClient, database: Database) -> None:
    assert migration._index_build(database.dsn) is None
    assert migration._index_build("host=/nowhere") is None
    build = "create index concurrently test_build on pgqueue.message (enqueued_time)"
    with database.connect(autocommit=True) as builder, database.connect() as writer:
        writer.execute("lock table pgqueue.message in row exclusive mode")
        building = threading.Thread(target=builder.execute, args=(build,))
        building.start()
        steps: list[Step | None] = []

        def is_measured() -> bool:
            steps.append(migration._index_build(database.dsn))
            return steps[-1] is not None

        eventually(is_measured)
        writer.rollback()
        building.join()
    assert steps[-1] is not None
    assert steps[-1].text.startswith("building an index: ")


def _wait_for_two(database: Database) -> None:
    """Until two sessions wait for the lock, and have done so for long enough to be shown."""
    waiting = """
        select from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock'
           and clock_timestamp() - query_start > interval '2 seconds'
    """
    with database.connect(autocommit=True) as watching:
        eventually(lambda: len(watching.execute(waiting).fetchall()) == 2)
