"""One round trip as a value: the SQL, the parameters, and how its rows are read. No I/O."""

from __future__ import annotations

from pgqueue.statements.statement import Statement

__all__ = ["Statement"]
