"""pgqueue's schema, by ``manage.py migrate``."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import sqlalchemy
from django.core.management.commands import flush
from django.core.management.sql import emit_post_migrate_signal
from django.db import connections, router
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from sqlalchemy.pool import StaticPool

from pgqueue.django import driver_connection, dsn
from pgqueue.django.emptying import empty_queues
from pgqueue.django.placing import in_schema, schema
from pgqueue.errors import InvalidStateError
from pgqueue.schema import migrate, migrate_within

FIRST = ("pgqueue", "0001_initial")


def install(_apps: Any, schema_editor: Any) -> None:
    """Install the schema in the transaction of the migration."""
    with _by_sqlalchemy(driver_connection(schema_editor.connection.alias)) as connection:
        migrate_within(connection, schema=schema())


def refuse_to_uninstall(*_: Any) -> None:
    """Refuse to delete all queues by a step back.

    Raises:
        InvalidStateError: always; the text explains how to uninstall.
    """
    raise InvalidStateError(
        "migrating back would delete all queues with their messages. If that is meant, run"
        f" `{in_schema('drop schema pgqueue, pgqueue_history cascade')}` in psql, then"
        " `manage.py migrate --fake pgqueue zero`"
    )


def migrate_or_empty(using: str, plan: Any = None, **_: Any) -> None:
    """After ``migrate``: bring the schema to the version of this library, in a transaction of its own.

    After ``flush``, which sends the same signal without a plan: empty the queues. Others send it so, too, to have the
    permissions of new models at once: then do nothing.
    """
    if plan is None:
        if _is_sent_by_flush() and _has_schema(using):
            empty_queues(using)
    elif _is_to_have_schema(using):
        migrate(dsn(using), schema=schema())


def _is_sent_by_flush() -> bool:
    """Whether Django's command ``flush`` called what sends the signal.

    The signal is the same from every sender, so the stack is searched. A command ``flush`` of ours would hide one of
    the project, which may refuse to run in production, or be hidden by it. A row that is deleted by ``flush`` is
    missing also after an upgrade, or after anything else that deletes rows.
    """
    for frame, _ in traceback.walk_stack(inspect.currentframe()):
        if frame.f_code is emit_post_migrate_signal.__code__:
            return frame.f_back is not None and frame.f_back.f_globals.get("__name__") == flush.__name__
    return False


def _has_schema(using: str) -> bool:
    if connections[using].vendor != "postgresql":
        return False
    with connections[using].cursor() as cursor:
        cursor.execute(in_schema("select to_regclass('pgqueue.message') is not null"))
        return bool(cursor.fetchone()[0])


def _is_to_have_schema(using: str) -> bool:
    """Whether the app belongs there, and was migrated, unless migrations are switched off, as in some tests.

    Django records a migration also where a router does not allow it.
    """
    if connections[using].vendor != "postgresql" or not router.allow_migrate(using, "pgqueue"):
        return False
    is_switched_off = MigrationLoader.migrations_module("pgqueue")[0] is None
    return is_switched_off or FIRST in MigrationRecorder(connections[using]).applied_migrations()


@contextmanager
def _by_sqlalchemy(connection: psycopg.Connection[Any]) -> Iterator[sqlalchemy.Connection]:
    """A connection of SQLAlchemy over one of Django's, whose transaction it neither begins nor ends."""
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://",
        creator=lambda: connection,
        poolclass=StaticPool,
        pool_reset_on_return=None,
        use_native_hstore=False,
    )
    for name in ("do_commit", "do_rollback", "do_close"):
        setattr(engine.dialect, name, lambda _: None)
    with engine.connect() as borrowed:
        yield borrowed
