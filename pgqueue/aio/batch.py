"""The asynchronous face of a batch, which sends a message when its members are settled."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from pgqueue import transports
from pgqueue.flows import Source, fan_in
from pgqueue.model.batch import BatchCounts
from pgqueue.statements import batches
from pgqueue.transports import adrive
from pgqueue.transports.deadlines import seconds_of, time_left

if TYPE_CHECKING:
    from pgqueue.transports.typed import AsyncTransaction as Transaction


class Batch:
    """Messages after which another is sent, once: by the transaction that settles the last of them.

    Made by :meth:`pgqueue.aio.QueueClient.create_batch` and :meth:`pgqueue.aio.QueueClient.batch`. Pass it to
    :meth:`pgqueue.aio.Queue.send`, then close it. See ``docs/batches.md``.
    """

    def __init__(self, batch_id: UUID, source: Source) -> None:
        self.id = batch_id
        self._source = source

    def __repr__(self) -> str:
        return f"Batch({str(self.id)!r})"

    async def close(self, *, transaction: Transaction | None = None) -> None:
        """Closes the batch: no more members can be added. If none is pending, this finishes the batch.

        Waits for open transactions that have added members. To close a batch again changes nothing.

        Raises:
            BatchNotFoundError: the batch does not exist, or was finished more than a day ago.
        """
        where = transports.where(transaction, self._source, asynchronous=True)
        await adrive(where.execute(batches.close_batch(self.id)))

    async def counts(self) -> BatchCounts:
        """Returns how many members there are, and what became of them. Raises what :meth:`close` raises."""
        return await adrive(self._source.execute(batches.batch_counts(self.id)))

    async def wait(self, timeout: timedelta | None = None) -> BatchCounts:  # noqa: ASYNC109 - as of a client
        """Waits until the batch is finished, and returns its counts.

        No transaction and no connection is held while it waits. Without ``timeout`` it waits for as long as it takes.

        Raises:
            OperationTimeoutError: the batch was not finished in time.
            BatchNotFoundError: the batch does not exist, or was finished more than a day ago.
        """
        return await adrive(fan_in.wait(self.id, time_left(seconds_of(timeout)), self._source))
