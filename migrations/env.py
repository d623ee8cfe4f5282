"""For alembic's own commands, which do not migrate: they know nothing of the functions and views."""

from __future__ import annotations

raise SystemExit("Migrate with `pgqueue migrate` or pgqueue.schema.migrate(): functions and views belong to it too.")
