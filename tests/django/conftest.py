"""A project of Django, whose databases are those of the test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import django
import pytest

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.django.settings")
django.setup()

from django.core.management import call_command  # noqa: E402 - after the setup
from django.db import connection, connections  # noqa: E402

import pgqueue.django  # noqa: E402
from pgqueue import QueueClient  # noqa: E402
from pgqueue.testing import Database  # noqa: E402
from tests.django.settings import database as settings_of  # noqa: E402
from tests.django.shop import Shipped  # noqa: E402


@pytest.fixture
def project(empty_database: Database, another_empty_database: Database) -> Iterator[Database]:
    """A project with two empty databases, and a third that is not PostgreSQL."""
    forget_connections()
    connections.settings = connections.configure_settings(
        {
            "default": settings_of(empty_database.direct),
            "other": settings_of(another_empty_database.direct),
            "small": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
        }
    )
    yield empty_database
    forget_connections()
    pgqueue.django.client.cache_clear()


def forget_connections() -> None:
    connections.close_all()
    for each in connections.all(initialized_only=True):
        del connections[each.alias]


@pytest.fixture
def client(project: Database) -> Iterator[QueueClient]:
    """The client of a migrated project with a queue."""
    call_command("migrate", verbosity=0)
    with connection.schema_editor() as editor:
        editor.create_model(Shipped)
    with pgqueue.django.client() as client:
        client.create_queue("orders")
        yield client
