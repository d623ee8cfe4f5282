"""DSNs: as libpq or SQLAlchemy writes them, or from libpq's environment variables."""

from __future__ import annotations

import os
import re
from typing import Any

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgqueue.errors import InvalidArgumentError

#: libpq's environment variables that name a database, and the parts of a DSN that they stand for.
VARIABLES = {"PGHOST": "host", "PGHOSTADDR": "hostaddr", "PGPORT": "port", "PGDATABASE": "dbname", "PGUSER": "user"}
SERVICE = "PGSERVICE"

#: SQLAlchemy's prefix of a DSN: the dialect, and the driver.
SQLALCHEMY_PREFIX = re.compile(r"\A\s*postgres(ql)?\+\w+://")


def for_libpq(dsn: str) -> str:
    """A DSN without the driver that SQLAlchemy names in it."""
    return SQLALCHEMY_PREFIX.sub("postgresql://", dsn)


def parsed(dsn: str) -> dict[str, Any]:
    """The parameters of a DSN, as libpq writes it.

    Raises:
        InvalidArgumentError: it is none.
    """
    try:
        return conninfo_to_dict(dsn)
    except (ProgrammingError, UnicodeError):  # its text contains the DSN, and with it the password
        raise InvalidArgumentError(
            "the DSN must be one that libpq understands: postgresql://user:password@host:5432/name, or host=… dbname=…"
        ) from None


def as_role(dsn: str, role: str) -> str:
    """The DSN with which a connection takes the role on when it begins."""
    conninfo = for_libpq(dsn)
    quoted = re.sub(r"([\\\s])", r"\\\1", role)
    given = conninfo_to_dict(conninfo).get("options") or os.environ.get("PGOPTIONS", "")
    options = f"{given} -c role={quoted}".strip()
    return make_conninfo(conninfo, options=options)


def hosts(dsn: str) -> int:
    """How many hosts a DSN, as libpq writes it, or the environment names; they are tried one after the other."""
    parameters = conninfo_to_dict(dsn)
    named = (
        parameters.get("hostaddr")
        or parameters.get("host")
        or os.environ.get("PGHOSTADDR")
        or os.environ.get("PGHOST")
        or ""
    )
    return str(named).count(",") + 1


def from_environment() -> str | None:
    """The database that libpq's environment variables name, if they name one. libpq itself reads the others."""
    if os.environ.get(SERVICE):
        return make_conninfo(service=os.environ[SERVICE])
    named = {part: os.environ[variable] for variable, part in VARIABLES.items() if os.environ.get(variable)}
    return make_conninfo(**named) if named else None
