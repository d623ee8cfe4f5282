"""The schema of a database as text, to be compared."""

from __future__ import annotations

import subprocess

from pgqueue import schema
from pgqueue.embedded import wheel_binaries
from pgqueue.model.schemas import DEFAULT, history_schema
from pgqueue.testing import Database

SCHEMAS = [f"--schema={name}" for name in (DEFAULT, history_schema(DEFAULT))]


def dump(database: Database) -> str:
    command = [str(wheel_binaries() / "pg_dump"), "--schema-only", *SCHEMAS, "--no-owner", database.dsn]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    # Newer releases guard a dump with a random key.
    return "\n".join(line for line in text.splitlines() if not line.startswith(("\\restrict", "\\unrestrict")))


def fresh(database: Database) -> str:
    schema.migrate(database.dsn)
    return dump(database)
