"""``manage.py migrate`` brings pgqueue's schema, in the transaction of a migration of Django."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import override_settings

import pgqueue.django
from pgqueue import schema
from pgqueue.django import installing
from pgqueue.errors import InvalidArgumentError, InvalidStateError
from pgqueue.testing import Database


def exists(database: Database) -> bool:
    with database.connect() as looking:
        return looking.execute("select to_regnamespace('pgqueue') is not null").fetchone() == (True,)


def test_migrate_installs_the_schema(project: Database) -> None:
    call_command("migrate", "pgqueue", verbosity=0)
    assert schema.pending(project.dsn) == []
    with pgqueue.django.client() as client:
        client.create_queue("orders")


def test_it_is_part_of_the_transaction_of_the_migration(project: Database) -> None:
    with pytest.raises(ZeroDivisionError), connection.schema_editor(atomic=True) as editor:
        installing.install(None, editor)
        with connection.cursor() as cursor:
            cursor.execute("select to_regnamespace('pgqueue') is not null")
            assert cursor.fetchone() == (True,)
        assert not exists(project), "it is not committed yet"
        raise ZeroDivisionError
    assert not exists(project)


def test_migrate_applies_the_changes_of_a_newer_version(project: Database) -> None:
    call_command("migrate", "pgqueue", verbosity=0)
    with project.connect() as older:
        older.execute("drop view pgqueue.topics; update pgqueue.installation set definitions_digest = 'older'")
    call_command("migrate", verbosity=0)
    assert schema.pending(project.dsn) == []
    with project.connect() as looking:
        looking.execute("select from pgqueue.topics")


def test_nothing_is_installed_where_the_app_was_not_migrated(project: Database) -> None:
    call_command("migrate", "auth", verbosity=0)
    assert not exists(project)


def test_a_step_back_is_refused(project: Database) -> None:
    call_command("migrate", "pgqueue", verbosity=0)
    with pytest.raises(InvalidStateError, match="drop schema pgqueue, pgqueue_history cascade"):
        call_command("migrate", "pgqueue", "zero", verbosity=0)
    assert exists(project)


def test_the_steps_to_uninstall_are_those_for_the_schema_of_the_project() -> None:
    steps = 'run `drop schema "Jobs of Acme", jobs_of_acme_history cascade` in psql'
    with override_settings(PGQUEUE_SCHEMA="Jobs of Acme"), pytest.raises(InvalidStateError, match=steps):
        installing.refuse_to_uninstall()


def test_each_database_is_migrated_by_its_name(project: Database, another_empty_database: Database) -> None:
    call_command("migrate", "pgqueue", database="other", verbosity=0)
    assert exists(another_empty_database)
    assert not exists(project)
    with pytest.raises(InvalidArgumentError, match="'small' is not PostgreSQL"):
        call_command("migrate", "pgqueue", database="small", verbosity=0)


class OnlyOther:
    """A router that keeps pgqueue in one database."""

    def allow_migrate(self, db: str, app_label: str, **_: object) -> bool | None:
        return db == "other" if app_label == "pgqueue" else None


def test_a_router_decides_where_the_schema_is(project: Database, another_empty_database: Database) -> None:
    with override_settings(DATABASE_ROUTERS=[OnlyOther()]):
        for database in ("default", "other", "small"):
            call_command("migrate", database=database, verbosity=0)
    assert not exists(project)
    assert exists(another_empty_database)


def test_the_models_are_those_of_the_migration(project: Database) -> None:
    call_command("makemigrations", "pgqueue", check=True, dry_run=True, verbosity=0)
