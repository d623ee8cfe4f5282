"""Runs the revisions on the connection that pgqueue.schema opened, in the transaction that it will commit."""

from __future__ import annotations

from alembic import context

connection = context.config.attributes.get("connection")
if connection is None:
    raise SystemExit(
        "Migrate with `pgqueue migrate` or pgqueue.schema.migrate(): functions and views belong to it too."
    )

context.configure(connection=connection, version_table_schema="pgqueue")
with context.begin_transaction():
    context.run_migrations()
