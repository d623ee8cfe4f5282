"""Other sessions of the same role."""

from __future__ import annotations

from pgqueue.statements.statement import Statement, nothing


def terminate(backend: int) -> Statement[None]:
    """Ends a session; what it has open is rolled back."""
    return Statement("select pg_terminate_backend(%(backend)s::integer)", {"backend": backend}, nothing)
