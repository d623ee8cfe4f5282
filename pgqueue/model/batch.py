"""Batches: messages that belong together, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol
from uuid import UUID

from pgqueue.errors import InvalidArgumentError

#: The time of messages that wait for the end of a batch, as ``pgqueue.batch_end()``.
BATCH_END: Final = datetime(9000, 1, 1, tzinfo=UTC)


class Identified(Protocol):
    """A batch of either face."""

    @property
    def id(self) -> UUID:
        """Its id."""


@dataclass(frozen=True)
class BatchCounts:
    """How many members a batch has, and what became of them.

    ``deleted`` members expired, were cancelled, deleted or purged, or their queue was dropped.
    """

    total: int
    pending: int
    completed: int
    dead_lettered: int
    deleted: int
    is_finished: bool = field(default=False, kw_only=True)


def batch_uuid(batch: object) -> UUID:
    """The id of a batch, which is one or its text.

    Raises:
        InvalidArgumentError: it is none.
    """
    try:
        return batch if isinstance(batch, UUID) else UUID(batch)  # type: ignore[arg-type]
    except (AttributeError, TypeError, ValueError):
        raise InvalidArgumentError(f"the id of a batch must be a UUID, not {batch!r}") from None
