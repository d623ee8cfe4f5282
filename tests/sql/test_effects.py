"""Recorded effects: work done outside of the database, known to the next receiver of the message."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.stage import DEAD, INVALID_ARGUMENT, SECOND, UNKNOWN_QUEUE, Session, Stage, refused


def test_an_effect_is_recorded_once(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        assert record(ann, "m", effect="mail", result=Jsonb({"id": 7}))
        stage.passes(SECOND)
        assert not record(bob, "m", effect="mail", result=Jsonb({"id": 8}))
        assert ann.rows("select * from pgqueue.recorded_effects('q', 'm')") == [
            ("mail", {"id": 7}, ann.call("clock") - SECOND)
        ]


def test_effects_are_distinguished_by_queue_message_and_name(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="other")
        assert record(ann, "m")
        assert record(ann, "n")
        stage.passes(SECOND)
        assert record(ann, "m", effect="mail")
        assert ann.call("record_effect", queue="other", message_id="m")
        assert effects(ann, "m") == ["", "mail"]
        assert effects(ann, "n") == [""]
        assert effects(ann, "unknown") == []


def test_an_effect_is_recorded_with_the_completion_and_undone_with_it(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", message_id="m")
        (received,) = ann.receive()
        ann.begin()
        assert record(ann, "m")
        ann.complete(received)
        assert effects(bob, "m") == []
        ann.rollback()
        assert effects(bob, "m") == []
        ann.begin()
        assert record(ann, "m")
        ann.complete(received)
        ann.commit()
        assert effects(bob, "m") == [""]


def test_a_second_record_of_an_effect_waits_for_the_first_to_commit(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        assert record(ann, "m")
        assert record(bob, "n")
        second = bob.starts(lambda: record(bob, "m"))
        ann.commit()
        assert second.result() is False


def test_a_second_record_of_an_effect_succeeds_when_the_first_aborts(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        assert record(ann, "m", result=Jsonb("ann's"))
        second = bob.starts(lambda: record(bob, "m", result=Jsonb("bob's")))
        ann.rollback()
        assert second.result() is True
        assert bob.value("select result from pgqueue.recorded_effects('q', 'm')") == "bob's"


def test_an_effect_is_kept_as_long_as_was_asked_for(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        record(ann, "m", keep=2 * SECOND, result=Jsonb(1))
        stage.passes(2 * SECOND - timedelta(microseconds=1))
        assert not record(ann, "m", keep=timedelta(days=1))
        assert effects(ann, "m") == [""]
        stage.passes(timedelta(microseconds=1))
        assert effects(ann, "m") == []
        assert record(ann, "m", result=Jsonb(2))
        stage.passes(timedelta(days=7) - SECOND)
        assert ann.value("select result from pgqueue.recorded_effects('q', 'm')") == 2


def test_a_sweep_forgets_effects_that_need_not_be_kept_and_no_others(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="other")
        for message_id in ("a", "b"):
            record(ann, message_id, keep=SECOND)
        record(ann, "kept")
        ann.call("record_effect", queue="other", message_id="m", keep=2 * SECOND)
        stage.passes(SECOND)
        assert ann.table("sweep", dry_run=True) == [("q", 0, 0, 0, 0, 2, 0, 0, 0, False)]
        assert ann.table("sweep", max_messages=1) == [("q", 0, 0, 0, 0, 1, 0, 0, 0, True)]
        assert ann.table("sweep") == [("q", 0, 0, 0, 0, 1, 0, 0, 0, False)]
        assert sorted(ann.values("select message_id from pgqueue.recorded_effect")) == ["kept", "m"]


def test_a_sweep_skips_an_effect_that_is_being_recorded_again(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        record(ann, "m", keep=SECOND)
        stage.passes(SECOND)
        ann.begin()
        assert record(ann, "m")
        assert bob.table("sweep") == []
        ann.commit()
        assert effects(bob, "m") == [""]


def test_a_dropped_queue_takes_its_effects_with_it(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        record(ann, "m")
        ann.call("drop_queue", queue="q")
        assert ann.value("select count(*) from pgqueue.recorded_effect") == 0


WRONG: list[dict[str, Any]] = [
    {"message_id": None},
    {"message_id": ""},
    {"message_id": "ä" * 129},
    {"message_id": "m", "effect": None},
    {"message_id": "m", "effect": "ä" * 261},
    {"message_id": "m", "keep": None},
    {"message_id": "m", "keep": timedelta(0)},
    {"message_id": "m", "keep": -SECOND},
    {"message_id": "m", "queue": DEAD},
]


@pytest.mark.parametrize("arguments", WRONG, ids=str)
def test_a_wrong_argument_is_refused(database: Database, arguments: dict[str, Any]) -> None:
    with Stage(database) as stage, refused(INVALID_ARGUMENT):
        stage.session("ann").call("record_effect", **{"queue": "q"} | arguments)


def test_names_may_be_so_long(database: Database) -> None:
    with Stage(database) as stage:
        # Of many letters, so that they cannot be compressed.
        letters = "".join(chr(0x4E00 + number * 37) for number in range(260))
        assert record(stage.session("ann"), letters[:128], effect=letters)


def test_an_unknown_queue_is_refused(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for call in ("record_effect('nowhere', 'm')", "recorded_effects('nowhere', 'm')"):
            with refused(UNKNOWN_QUEUE, call):
                ann.rows(f"select * from pgqueue.{call}")


def record(session: Session, message_id: str, **options: Any) -> Any:
    return session.call("record_effect", queue="q", message_id=message_id, **options)


def effects(session: Session, message_id: str) -> list[str]:
    return session.values("select effect from pgqueue.recorded_effects('q', %(id)s)", id=message_id)
