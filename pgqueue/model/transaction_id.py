"""The id of a transaction, and the run of the server that gave it out."""

from __future__ import annotations


class TransactionId(str):
    """PostgreSQL's id of a transaction or savepoint; after a crash or a failover it may be given out again.

    ``server_run`` is what ``pgqueue.server_run()`` returned in that transaction.
    """

    __slots__ = ("server_run",)

    server_run: str | None

    def __new__(cls, text: str, server_run: str | None = None) -> TransactionId:
        """Create the id; a string takes its text in ``__new__``."""
        self = super().__new__(cls, text)
        self.server_run = server_run
        return self
