"""Batches: their ids, and how many of their members are settled."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol
from uuid import UUID

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.arguments import shown

#: The time for which final messages of batches are scheduled, as ``pgqueue.batch_end()``.
BATCH_END: Final = datetime(9000, 1, 1, tzinfo=UTC)


class Identified(Protocol):
    """A batch of either face."""

    @property
    def id(self) -> UUID:
        """Its id."""


@dataclass(frozen=True)
class BatchCounts:
    """How many members a batch has, and how many are pending, completed, dead-lettered and deleted.

    ``deleted`` members expired, were cancelled, deleted or purged, or their queue was dropped.
    """

    total: int
    pending: int
    completed: int
    dead_lettered: int
    deleted: int
    is_finished: bool = field(default=False, kw_only=True)


def batch_uuid(batch: object) -> UUID:
    """The id of a batch, given as a UUID or as text.

    Raises:
        InvalidArgumentError: it is none.
    """
    try:
        return batch if isinstance(batch, UUID) else UUID(batch)  # type: ignore[arg-type]
    except (AttributeError, TypeError, ValueError):
        raise InvalidArgumentError(f"the id of a batch must be a UUID, not {shown(batch)}") from None
