from __future__ import annotations

from datetime import timedelta

import pytest

from pgqueue import Message, QueueClient
from pgqueue.testing import Clock, Database
from tests.cli.command_line import CommandLine, Ended

HOSTILE = "\x1b]0;title\x07\x9b2J\u202e\rall is well"


def findings(ended: Ended) -> list[str]:
    """The lines that name a check."""
    return [line for line in ended.out.splitlines() if line and not line.startswith((" ", "Database "))]


def test_all_is_well(pgqueue: CommandLine, client: QueueClient) -> None:
    client.queue("orders").send(Message(1))
    ended = pgqueue("doctor")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.endswith("is well: 31 checks found nothing.\n")
    assert ended.out.count("\n") == 1
    assert len(pgqueue("doctor", "--json", "--invariants").document["well"]) == 32


def test_a_finding_shows_its_cause_its_age_its_cost_and_the_repair(
    pgqueue: CommandLine, client: QueueClient, clock: Clock
) -> None:
    client.queue("orders").send(Message(1))
    clock.move(timedelta(hours=1))
    ended = pgqueue("doctor", COLUMNS="100")
    assert (ended.code, ended.err) == (1, "")
    no_receivers, clocks = findings(ended)
    assert no_receivers.startswith("no-receivers, since ")
    assert clocks == "clock"
    assert "  Queue orders has no receivers. Its messages wait, or expire.\n" in ended.out
    assert "  fix: pgqueue worker MODULE:HANDLER orders\n" in ended.out
    assert ended.out.endswith(": 2 findings, 29 checks found nothing.\n")
    assert max(map(len, ended.out.splitlines())) <= 100


def test_the_same_as_json(pgqueue: CommandLine, client: QueueClient, clock: Clock, database: Database) -> None:
    sent = client.queue("orders").send(Message(1))
    assert sent
    clock.move(timedelta(hours=1))
    ended = pgqueue("doctor", "--json")
    assert ended.code == 1
    document = Ended(0, ended.out, ended.err).document
    assert document["database"] == database.name
    first, second = document["findings"]
    assert (first["check"], first["mend"]) == ("no-receivers", "pgqueue worker MODULE:HANDLER orders")
    assert first.keys() == {"check", "what", "cost", "mend", "since"}
    assert second["since"] is None
    assert "not-installed" in document["well"]
    assert document["unseen"] == []


def test_a_database_that_was_never_migrated_is_one_line(pgqueue: CommandLine, empty_database: Database) -> None:
    ended = pgqueue("doctor", "--dsn", empty_database.dsn)
    assert (ended.code, ended.err) == (1, "")
    assert ended.out == f"pgqueue is not installed in database {empty_database.name}. Run `pgqueue migrate`.\n"


def test_the_worst_of_many_findings_are_shown(pgqueue: CommandLine, client: QueueClient, clock: Clock) -> None:
    for number in range(5):
        client.create_queue(f"q{number}")
        client.queue(f"q{number}").send(Message(1))
    clock.move(timedelta(minutes=10))
    ended = pgqueue("doctor")
    assert ended.out.count("has no receivers") == 3
    assert "no-receivers: 2 more, which --json lists\n" in ended.out


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_text_of_others_cannot_control_the_terminal(
    pgqueue: CommandLine, client: QueueClient, database: Database, form: list[str]
) -> None:
    name = f"test {HOSTILE} {database.name}"
    quoted = '"' + name + '"'
    with database.connect(autocommit=True) as connection:
        connection.execute(f"create role {quoted}".encode())
        connection.execute("select pgqueue.grant_send('orders', %s)", [name])
        connection.execute(f"drop role {quoted}".encode())
    ended = pgqueue("doctor", *form)
    assert ended.code == 1
    assert "lost-role" in ended.out
    assert ended.out.replace("\n", "").isprintable()


def test_checks_without_privileges_are_listed_with_the_missing_grant(
    pgqueue: CommandLine, database: Database, client: QueueClient
) -> None:
    role = f"{database.name}_stranger"
    with database.connect(autocommit=True) as connection:
        connection.execute(f"create role {role} login".encode())
    ended = pgqueue("doctor", PGUSER=role, PGQUEUE_DSN=database.direct.replace("postgres@", ""))
    with database.connect(autocommit=True) as connection:
        connection.execute(f"drop role {role}".encode())
    assert ended.code == 0
    assert f'  fix: grant pgqueue_monitor to "{role}";\n' in ended.out
    assert f'  fix: grant pg_read_all_stats to "{role}";\n' in ended.out
    assert ended.out.endswith(" checks found nothing, 15 could not look.\n")
