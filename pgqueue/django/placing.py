"""Where pgqueue is in the databases of the project: the setting ``PGQUEUE_SCHEMA``."""

from __future__ import annotations

import shlex
from typing import LiteralString

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS

from pgqueue.errors import InvalidArgumentError
from pgqueue.model import schemas


def schema() -> str:
    """The schema of pgqueue, in every database.

    Raises:
        ImproperlyConfigured: no instance can be in this schema.
    """
    try:
        return schemas.check_schema(getattr(settings, "PGQUEUE_SCHEMA", schemas.DEFAULT))
    except InvalidArgumentError as error:
        raise ImproperlyConfigured(f"PGQUEUE_SCHEMA: {error.args[0]}") from None


def program(database: str) -> str:
    """How the commands of pgqueue are called on a database of the project."""
    beside = "" if database == DEFAULT_DB_ALIAS else f" --database {shlex.quote(database)}"
    return f"python manage.py pgqueue{beside}"


def in_schema(sql: LiteralString) -> LiteralString:
    """The same SQL for this schema."""
    return schemas.in_schema(sql, schema())


def view(name: str) -> str:
    """A view as the table of a model: Django takes a name in quotes as it is."""
    return f'"{schema()}"."{name}"'
