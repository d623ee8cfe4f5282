"""A database per test: a copy of a template that is migrated once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL

from pgqueue.model.schemas import DEFAULT
from pgqueue.schema import migrate
from pgqueue.testing.clock import Clock, install
from pgqueue.transports.readable import renaming


@dataclass(frozen=True)
class Database:
    """A database for one test; ``dsn`` is a URL for libpq, ``url`` one for SQLAlchemy.

    If ``dsn`` leads through PgBouncer, ``direct`` bypasses it; ``connect`` uses ``direct``. pgqueue is in ``schema``:
    statements of ``connect`` that name ``pgqueue`` are executed there.
    """

    dsn: str
    direct: str = ""
    schema: str = DEFAULT

    def __repr__(self) -> str:
        return f"Database({self.name!r})"  # the DSN may contain a password

    def __post_init__(self) -> None:
        object.__setattr__(self, "direct", self.direct or self.dsn)

    @property
    def name(self) -> str:
        """The name of the database."""
        return str(conninfo_to_dict(self.dsn)["dbname"])

    @property
    def url(self) -> str:
        """The URL for SQLAlchemy."""
        return self.dsn.replace("postgresql://", "postgresql+psycopg://", 1)

    @property
    def clock(self) -> Clock:
        """The clock of the database."""
        return Clock(self.direct, self.schema)

    def connect(self, **kwargs: Any) -> psycopg.Connection[Any]:
        """Connect with psycopg, bypassing PgBouncer."""
        return renaming(psycopg.connect(self.direct, **kwargs), self.schema)

    async def connect_async(self, **kwargs: Any) -> psycopg.AsyncConnection[Any]:
        """Connect with asynchronous psycopg, bypassing PgBouncer."""
        return await psycopg.AsyncConnection.connect(self.direct, **kwargs)

    def move_clock(self, by: timedelta) -> None:
        """Move the time of every process; see :meth:`Clock.move`."""
        self.clock.move(by)


@contextmanager
def created(
    server: str, template: str | None = None, through: str | None = None, schema: str = DEFAULT
) -> Iterator[Database]:
    """Create a database on a server, empty or a copy, and drop it at the end, even if clients are connected.

    Clients reach it ``through`` a PgBouncer, if there is one.
    """
    database = create(server, template, schema=schema)
    try:
        yield database if through is None else replace(database, dsn=dsn(through, database.name), direct=database.dsn)
    finally:
        drop(server, database.name)


def create(server: str, template: str | None = None, name: str | None = None, schema: str = DEFAULT) -> Database:
    """Create a database, empty or a copy of a template, which has pgqueue in this schema."""
    name = name or f"pgqueue_test_{uuid.uuid4().hex[:12]}"
    command = sql.SQL("create database {} template {}").format(
        sql.Identifier(name), sql.Identifier(template or "template0")
    )
    with psycopg.connect(server, autocommit=True) as connection:
        if connection.info.server_version >= 150000:
            command += sql.SQL(" strategy file_copy")  # takes half the time of a copy through the WAL
        connection.execute(command)
    return Database(dsn(server, name), schema=schema)


def drop(server: str, name: str) -> None:
    """Drop a database, even if clients are connected."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


def create_template(server: str, schema: str = DEFAULT) -> str:
    """Create a migrated database with a movable clock, to be copied."""
    template = create(server, name=f"pgqueue_template_{uuid.uuid4().hex[:12]}", schema=schema)
    try:
        migrate(template.dsn, schema=schema)
        with template.connect() as connection:
            install(connection)
    except BaseException:
        drop(server, template.name)
        raise
    return template.name


def dsn(server: str, name: str) -> str:
    """The same server, another database."""
    parts: dict[str, Any] = {key: str(value) for key, value in conninfo_to_dict(server).items() if value is not None}
    host, port = parts.pop("host", None), parts.pop("port", None)
    if host is not None and (host.startswith("/") or "," in host):
        parts |= {"host": host} | ({"port": port} if port else {})
        host = port = None
    url = URL.create(
        "postgresql",
        username=parts.pop("user", None),
        password=parts.pop("password", None),
        host=host,
        port=int(port) if port else None,
        database=name,
        query={key: value for key, value in parts.items() if key != "dbname"},
    )
    return url.render_as_string(hide_password=False)
