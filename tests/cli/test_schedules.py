from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from pgqueue import Message, QueueClient
from pgqueue.testing import Database
from tests.cli.command_line import CommandLine
from tests.fields import TEXT_VALUES

MINUTE = timedelta(minutes=1)

NIGHTLY = ("schedule", "create", "nightly", "orders", '{"n": 1}', "--cron", "30 2 * * *", "--timezone", "Europe/Zurich")


def test_a_schedule_is_created_with_all_options(pgqueue: CommandLine, client: QueueClient) -> None:
    options = "--catch-up all --jitter 30s --start 2100-01-01T00:00Z --end 2100-01-09T00:00Z -p a:=1"
    texts = {name: text.removeprefix("the ") for name, text in TEXT_VALUES.items()}
    options += "".join(f" --{name.replace('_', '-')} {text}" for name, text in texts.items())
    options += " --priority -3 --time-to-live 1h --unique-key nightly --unique-scope unsettled"
    document = pgqueue(*NIGHTLY, *options.split(), "--json").document
    for time in ("created_at", "read_at", "start", "end"):
        datetime.fromisoformat(document.pop(time))
    assert datetime.fromisoformat(document.pop("next_due")) == datetime.fromisoformat("2100-01-01T02:30:00+01:00")
    message = {
        **texts, "unique_key": "nightly", "unique_scope": "unsettled", "application_properties": {"a": 1},
        "priority": -3, "time_to_live": 3600.0, "body": {"n": 1},
    }  # fmt: skip
    assert document == {
        "name": "nightly", "queue": "orders", "cron": "30 2 * * *", "every": None, "timezone": "Europe/Zurich",
        "catch_up": "all", "jitter": 30.0, "is_paused": False, "last_due": None, "last_error": None, "message": message,
    }  # fmt: skip
    assert client.get_schedule("nightly").catch_up == "all"


def test_a_schedule_speaks_to_people(pgqueue: CommandLine, client: QueueClient) -> None:
    said = pgqueue("schedule", "create", "beat", "orders", "text", "--text", "--every", "1h30m").out
    assert said.startswith("schedule beat created\n")
    assert "every 1h30m" in said
    assert pgqueue("schedule", "pause", "beat").out.startswith("schedule beat paused\n")
    assert "paused" in pgqueue("schedule", "list").out
    assert pgqueue("schedule", "resume", "beat").out.startswith("schedule beat resumed\n")
    assert '"text"' in pgqueue("schedule", "show", "beat").out
    assert pgqueue("schedule", "run", "beat").out.startswith("sent message ")
    assert pgqueue("schedule", "delete", "beat", "--yes").out == "schedule beat deleted\n"
    assert "there is no schedule yet" in pgqueue("schedule", "list").err


def test_the_next_due_times_are_in_the_time_zone_of_the_schedule(pgqueue: CommandLine, client: QueueClient) -> None:
    assert pgqueue(*NIGHTLY, "--start", "2100-03-28T00:00+01:00", "--end", "2100-03-30T00:00+02:00").code == 0
    times = ["2100-03-28T03:00:00+02:00", "2100-03-29T02:30:00+02:00"]
    assert pgqueue("schedule", "next", "nightly").out.splitlines() == times
    document = pgqueue("schedule", "next", "nightly", "--count", "1", "--json").document
    assert document == {"schedule": "nightly", "due_times": times[:1]}


def test_a_sweep_sends_due_schedules_and_reports_them(
    pgqueue: CommandLine, client: QueueClient, database: Database
) -> None:
    client.create_schedule("beat", queue="orders", message=Message(1), every=MINUTE)
    database.move_clock(MINUTE)
    assert pgqueue("sweep").out == "1 whose time had come\n"
    (document,) = pgqueue("schedule", "list", "--json").document
    assert document["last_due"] is not None
    assert "last due" in pgqueue("schedule", "list").out


def test_a_failing_schedule_is_shown_with_its_error(
    pgqueue: CommandLine, client: QueueClient, database: Database
) -> None:
    client.create_schedule("beat", queue="orders", message=Message(b"\0"), every=MINUTE)
    client.update_queue("orders", status="SEND_DISABLED")
    database.move_clock(MINUTE)
    assert pgqueue("sweep").out == "there was nothing to do\n"
    shown = pgqueue("schedule", "show", "beat").out
    assert "SEND_DISABLED" in shown
    assert "AA==" in shown
    assert "SEND_DISABLED" in pgqueue("schedule", "list", COLUMNS="200").out


def test_the_other_documents(pgqueue: CommandLine, client: QueueClient) -> None:
    client.create_schedule("beat", queue="orders", message=Message(1), every=MINUTE)
    assert pgqueue("schedule", "show", "beat", "--json").document["every"] == 60.0
    assert pgqueue("schedule", "pause", "beat", "--json").document["is_paused"]
    assert not pgqueue("schedule", "resume", "beat", "--json").document["is_paused"]
    (message,) = [pgqueue("schedule", "run", "beat", "--json").document]
    assert message == {"schedule": "beat", "sequence_number": client.queue("orders").peek()[0].sequence_number}
    assert pgqueue("schedule", "delete", "beat", "--yes", "--json").document == {"schedule": "beat", "deleted": True}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--cron", "61 * * * *"], "bad minute"),
        (["--cron", "0 0 30 2 *"], "it is never due"),
        (["--every", "0s"], "every must be positive"),
        (["--every", "soon"], "write 30s, 5m or 1h30m"),
        (["--every", "1m", "--timezone", "Mars"], "timezone must be the name of a time zone"),
        (["--every", "1m", "--end", "2000-01-01T00:00Z"], "ends_at must be a time"),
        (["--every", "1m", "--catch-up", "some"], "'none', 'last', 'all'"),
        ([], "give either cron or every"),
    ],
)
def test_bad_input_is_one_line(pgqueue: CommandLine, client: QueueClient, arguments: list[str], text: str) -> None:
    ended = pgqueue("schedule", "create", "s", "orders", "1", *arguments)
    assert (ended.code, text in ended.only_error) == (2, True), ended.only_error


def test_a_name_that_is_taken_is_one_line_unless_it_may_exist(pgqueue: CommandLine, client: QueueClient) -> None:
    assert pgqueue(*NIGHTLY).code == 0
    ended = pgqueue(*NIGHTLY)
    assert ended.code == 1
    assert ended.only_error.endswith("delete it with `pgqueue schedule delete`, or use --exist-ok")
    assert pgqueue(*NIGHTLY, "--exist-ok").code == 0


def test_an_unknown_schedule_is_one_line(pgqueue: CommandLine, client: QueueClient) -> None:
    for verb in ("show", "next", "pause", "resume", "run", "delete"):
        ended = pgqueue("schedule", verb, "nightly")
        assert ended.code == 1
        assert "schedule nightly does not exist: `pgqueue schedule list` shows" in ended.only_error.replace("'", "")
