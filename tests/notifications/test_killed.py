"""A process that notifies recipients is killed, with SIGKILL, at every possible point.

At every point: the notification is sent to the recipients again, removed only when it is complete, and its state is
neither lost nor older than the last finished round.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import pgqueue
from pgqueue.testing import Database
from tests.chaos import processes
from tests.notifications.teller import ROUNDS, Counted, transmitter
from tests.patience import eventually

QUEUE = "notifications"
LOCK = timedelta(minutes=1)

BEGINNING = ["before receive", "before clock", "telling", "told"]
ENDS = {
    "alone": [["before postpone", "after postpone"], ["before complete", "after complete"]],
    "transaction": [
        ["before pin", "before postpone", "before commit", "after commit"],
        ["before commit", "after commit"],
    ],
}


def points() -> Iterator[Any]:
    """Every point of the second round, and of the last."""
    for kind, ends in ENDS.items():
        for finished, end in zip((1, ROUNDS - 1), ends, strict=True):
            for step in [*BEGINNING, *end]:
                yield pytest.param(kind, finished, step, id=f"{kind}, {finished}, {step}")


class Teller(processes.Consumer):
    """The process of ``teller.py``."""

    def __init__(self, dsn: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(processes, "SCRIPT", Path(__file__).with_name("teller.py"))
        super().__init__("tell", dsn, QUEUE, kind)

    def reach_in_round(self, finished: int, step: str) -> int:
        """Lets it go on until it stands there, with at least so many rounds behind it; returns how many."""
        began = False
        while True:
            said = self.listen()
            began = began or (said["finished"] == finished and said["step"] == "before receive")
            if began and said["step"] == step:
                return int(said["finished"])
            self.go_on()


@pytest.fixture
def client(database: Database) -> Iterator[pgqueue.QueueClient]:
    with database.connect() as connection:
        connection.execute("create table notified (id bigint generated always as identity, seen integer)")
        connection.execute("create table effect (seen integer)")
    with pgqueue.QueueClient(database.dsn) as client:
        client.create_queue(QUEUE, lock_duration=LOCK)
        yield client


@pytest.mark.parametrize(("kind", "finished", "step"), list(points()))
@pytest.mark.core
def test_a_notification_of_a_killed_process_is_sent_again_with_the_state_of_the_last_round(
    database: Database,
    client: pgqueue.QueueClient,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    finished: int,
    step: str,
) -> None:
    heir = transmitter(client, database.dsn, QUEUE, kind, lambda _: None)
    heir.notify_all(Counted())
    with Teller(database.dsn, kind, monkeypatch) as teller:
        wrote = teller.reach_in_round(finished, step)
        notified_by_then = len(rows(database, "select from notified"))
        teller.kill()
    (state,) = remembered(database) or (None,)
    if state is None:
        assert finished == ROUNDS - 1
        assert step in (["after complete"] if kind == "alone" else ["after commit"]), "removed by the last round alone"
    else:
        assert state >= wrote, "not older than the last finished round"
        assert state <= finished + 1
    until_removed(database, heir)

    seen = [seen for (seen,) in rows(database, "select seen from notified order by id")]
    if state is not None:
        assert len(seen) > notified_by_then or step.startswith("after"), "notified at least once more"
        assert seen[notified_by_then:] == list(range(state, ROUNDS)), "and it carries on from there"
    assert set(seen) == set(range(ROUNDS))
    if kind == "transaction":
        assert rows(database, "select seen from effect order by seen") == [(seen,) for seen in range(ROUNDS)]
    assert rows(database, "select from pgqueue.dead_letter") == []


def until_removed(database: Database, heir: Any) -> None:
    """The lock of the dead runs out, and another process carries on."""
    database.move_clock(LOCK + timedelta(seconds=1))
    eventually(lambda: heir.process_pending() and not remembered(database))


def remembered(database: Database) -> list[int]:
    return [state or 0 for (state,) in rows(database, "select state from pgqueue.notifications")]


def rows(database: Database, statement: Any) -> list[tuple[Any, ...]]:
    with database.connect(autocommit=True) as connection:
        return connection.execute(statement).fetchall()
