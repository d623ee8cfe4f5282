"""The client of a database follows the settings of that database, and lets go of it before it is copied or dropped."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core.management import call_command
from django.db import connection, connections

import pgqueue.django
from pgqueue import Message, Queue, QueueClient
from pgqueue.testing import Database
from tests.patience import eventually


@pytest.fixture
def orders(client: QueueClient) -> Queue:
    """A queue that was made before the settings changed, and the same queue in the other database."""
    call_command("migrate", database="other", verbosity=0)
    pgqueue.django.client("other").create_queue("orders")
    orders = client.queue("orders")
    orders.send(Message("of the first"))
    return orders


def name(alias: str) -> str:
    return str(connections[alias].settings_dict["NAME"])


def connected(database: Database, to: str) -> int:
    """How many connections of clients a database has."""
    with database.connect() as looking:
        count = "select count(*) from pg_stat_activity where datname = %s and application_name = 'pgqueue'"
        return int(looking.execute(count, [to]).fetchall()[0][0])


def test_a_queue_that_was_made_before_follows_the_settings(orders: Queue) -> None:
    first = name("default")
    connections["default"].settings_dict["NAME"] = name("other")
    orders.send(Message("of the second"))
    assert [each.body for each in orders.peek(max_messages=9)] == ["of the second"]
    with pgqueue.django.client().queue("orders").receiver() as receiver:
        assert next(receiver).body == "of the second"
    connections["default"].settings_dict["NAME"] = first
    assert [each.body for each in orders.peek(max_messages=9)] == ["of the first"]


@pytest.mark.parametrize("setting", ["USER", "OPTIONS", "assume_role"])
def test_every_setting_that_names_the_connection_is_followed(orders: Queue, project: Database, setting: str) -> None:
    with project.connect(autocommit=True) as administrator:
        administrator.execute(f"create role {project.name}_shop login superuser".encode())
        try:
            if setting == "USER":
                connections["default"].settings_dict["USER"] = f"{project.name}_shop"
            elif setting == "assume_role":
                connections["default"].settings_dict["OPTIONS"]["assume_role"] = f"{project.name}_shop"
            else:
                connections["default"].settings_dict["OPTIONS"]["options"] = f"-c role={project.name}_shop"
            orders.receive()
            (message,) = pgqueue.django.client().queue("orders").peek()
            assert message.locked_by is not None
            holder = "select usename, current_setting('role') from pg_stat_activity where application_name = 'pgqueue'"
            with pgqueue.django.client()._source._pool()._pool.connection() as pooled:  # type: ignore[attr-defined]
                ((user, role),) = pooled.execute(f"{holder} and pid = pg_backend_pid()").fetchall()
            assert f"{project.name}_shop" in {user, role}
        finally:
            pgqueue.django.client().close()
            administrator.execute(f"drop role {project.name}_shop".encode())


def test_threads_follow_together_and_leave_no_connection_behind(orders: Queue, project: Database) -> None:
    first = name("default")
    connections["default"].settings_dict["NAME"] = name("other")

    def send(number: int) -> None:
        orders.send(Message(number))
        connections.close_all()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(send, range(40)))
    assert sorted(each.body for each in orders.peek(max_messages=99)) == list(range(40))
    eventually(lambda: connected(project, first) == 0)


def test_a_client_that_was_closed_opens_again(orders: Queue, project: Database) -> None:
    pgqueue.django.client().close()
    eventually(lambda: connected(project, name("default")) == 0)
    assert len(orders.peek()) == 1


def test_the_pools_are_closed_before_django_creates_copies_or_drops_a_database(
    orders: Queue, project: Database
) -> None:
    assert connected(project, name("default")) == 1
    with connection._nodb_cursor():
        eventually(lambda: connected(project, name("default")) == 0)
    assert len(orders.peek()) == 1
