"""``manage.py flush`` empties queues, as it empties tables."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.core.management.commands import flush
from django.core.management.sql import emit_post_migrate_signal
from django.db import connection, connections
from django.db.models.signals import post_migrate
from django.utils import timezone

import pgqueue.django
from pgqueue import Message, QueueClient
from pgqueue.django.emptying import EMPTIED
from pgqueue.testing import Database

#: Tables that keep their rows: queues, topics and schedules with their settings, and what the engine needs of a queue.
KEPT = {
    "alembic_version",
    "dropped_queue",
    "flow",
    "forwarding_change",
    "forwarding_target",
    "front",
    "gateway_key",
    "group_limit",
    "installation",
    "progress",
    "publishing_lock",
    "queue",
    "queue_use",
    "repair_lock",
    "rule",
    "sample_lock",
    "schedule",
    "scheduled_progress",
    "secret",
    "staged_batch",
    "subscription",
    "sweep_lock",
    "sweep_progress",
    "topic",
}
CASCADES = {"claim"}
#: Queues with limits keep a row with no slot taken.
RESET = {"slot"}
TABLES = "select relname from pg_class where relnamespace = 'pgqueue'::regnamespace and relkind in ('r', 'p')"


def rows(query: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return [row[0] for row in cursor.fetchall()]


def test_each_table_is_emptied_or_kept_for_a_reason(client: QueueClient) -> None:
    assert sorted(rows(TABLES)) == sorted({*EMPTIED, *KEPT, *CASCADES, *RESET})


def fill(client: QueueClient) -> None:
    orders = client.queue("orders")
    orders.send_batch([Message(each, message_id=f"id-{each}") for each in range(5)])
    dead, deferred, settled, rests = orders.receive(max_messages=4)
    dead.dead_letter("Unpayable")
    deferred.defer()
    settled.record_effect("mail")
    settled.complete()
    rests.abandon(delay=timedelta(hours=1), error=ValueError())
    orders.receive()
    orders.schedule(Message("later"), at=timezone.now() + timedelta(hours=1))
    client.queue("sessions").send(Message(1, session_id="a"))
    session = client.queue("sessions").accept_session("a")
    session.set_state({"a": 1})
    (message,) = session.receive()
    message.complete()
    client.queue("limited").send_batch([Message(1), Message(2)])
    assert len(client.queue("limited").receive()) == 1


@pytest.fixture
def queues(client: QueueClient) -> QueueClient:
    minute = timedelta(minutes=10)
    client.update_queue("orders", duplicate_detection_history_time_window=minute, retain_history=minute)
    client.create_queue("sessions", requires_session=True)
    client.create_queue("limited", max_concurrent=1, max_receive_rate=0.001)
    return client


def test_flush_leaves_nothing_but_the_queues_which_work_as_new(queues: QueueClient) -> None:
    settings = queues.list_queues()
    fill(queues)
    call_command("flush", interactive=False, verbosity=0)
    assert [table for table in EMPTIED if rows(f"select count(*) from pgqueue.{table}") != [0]] == []
    assert rows("select count(*) from pgqueue.slot where sequence_number is not null") == [0]
    assert rows("select count(*) from pgqueue.broken_invariants()") == [0]
    assert queues.list_queues() == settings
    fill(queues)


def test_flush_leaves_a_database_without_the_schema_alone(project: Database) -> None:
    call_command("migrate", "auth", verbosity=0)
    call_command("flush", interactive=False, verbosity=0)
    assert rows("select to_regnamespace('pgqueue') is null") == [True]


def test_flush_of_one_database_empties_no_other(queues: QueueClient) -> None:
    call_command("migrate", database="other", verbosity=0)
    other = pgqueue.django.client("other")
    other.create_queue("orders")
    for each in (queues, other):
        each.queue("orders").send(Message(1))
    call_command("flush", database="other", interactive=False, verbosity=0)
    assert [len(each.queue("orders").peek()) for each in (queues, other)] == [1, 0]


def test_a_signal_that_flush_did_not_send_empties_nothing(queues: QueueClient) -> None:
    fill(queues)
    before = [rows(f"select count(*) from pgqueue.{table}") for table in EMPTIED]
    emit_post_migrate_signal(verbosity=0, interactive=False, db="default")  # as migrations do to have permissions
    assert [rows(f"select count(*) from pgqueue.{table}") for table in EMPTIED] == before


def test_a_signal_for_another_database_during_flush_empties_nothing_there(queues: QueueClient) -> None:
    def create_permissions_there(using: str, **_: Any) -> None:
        if using == "other":
            emit_post_migrate_signal(verbosity=0, interactive=False, db="default")

    call_command("migrate", database="other", verbosity=0)
    queues.queue("orders").send(Message(1))
    post_migrate.connect(create_permissions_there, sender=apps.get_app_config("auth"))
    try:
        call_command("flush", database="other", interactive=False, verbosity=0)
    finally:
        post_migrate.disconnect(create_permissions_there, sender=apps.get_app_config("auth"))
    assert len(queues.queue("orders").peek()) == 1


def test_a_flush_command_of_the_project_empties_the_queues_too(queues: QueueClient) -> None:
    class Guarded(flush.Command):
        def handle(self, **options: Any) -> None:
            super().handle(**options)

    queues.queue("orders").send(Message(1))
    call_command(Guarded(), interactive=False, verbosity=0)
    assert queues.queue("orders").peek() == []


def test_flush_of_a_database_that_is_not_postgresql_is_as_ever(project: Database) -> None:
    call_command("migrate", "auth", database="small", verbosity=0)
    call_command("flush", database="small", interactive=False, verbosity=0)
    assert connections["small"].vendor == "sqlite"
