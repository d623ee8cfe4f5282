"""The protocol of receipts: a recipient's answers, their aggregate, and the fate of a queued notification.

The two tables are the source: the code, ``docs/notifications.md`` and the tests are checked against them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum, StrEnum

from pgqueue.model.failure import storable, text_of


class ReceiptStatus(StrEnum):
    """A recipient's answer to a notification."""

    OK = "OK"
    FAIL = "FAIL"
    ABORT = "ABORT"
    FINISHED = "FINISHED"
    NOT_PROCESSED = "NOT_PROCESSED"
    PENDING = "PENDING"


class Fate(Enum):
    """The end of a round for a notification in a queue."""

    REMOVED = "removed"
    SENT_AGAIN = "stays, and is sent again when it is ready"
    DEAD_LETTERED = "removed: dead-lettered as TTLExpiredException"


class Timing(IntEnum):
    """Whether a queued notification is still in time: the column of :data:`REMOVAL`."""

    IN_TIME = 0
    #: A recipient has set ``timed_out``, and the notification has not expired.
    TIMED_OUT = 1
    EXPIRED = 2


@dataclass(frozen=True)
class Rule:
    """The effect of a receipt: whether it ends the round, and its weight among the receipts of the round.

    The receipt with the highest weight counts; ``answer`` is what ``notify_all`` returns for it.
    """

    stops: bool
    weight: int
    answer: ReceiptStatus


_S = ReceiptStatus

#: The receipt with the highest weight is the aggregate of a round; a later one of the same weight changes nothing.
#: ``answer`` is what ``notify_all`` returns for an aggregate: PENDING, accepted to be done later, counts as OK, and
#: ABORT means that the whole operation has failed.
AGGREGATION: dict[ReceiptStatus, Rule] = {
    _S.NOT_PROCESSED: Rule(stops=False, weight=0, answer=_S.NOT_PROCESSED),
    _S.OK:            Rule(stops=False, weight=1, answer=_S.OK),
    _S.PENDING:       Rule(stops=False, weight=2, answer=_S.OK),
    _S.FAIL:          Rule(stops=False, weight=3, answer=_S.FAIL),
    _S.ABORT:         Rule(stops=True,  weight=4, answer=_S.FAIL),
    _S.FINISHED:      Rule(stops=True,  weight=5, answer=_S.OK),
}  # fmt: skip

#: aggregate → the fate of a queued notification, by :class:`Timing`.
REMOVAL: dict[ReceiptStatus, tuple[Fate, Fate, Fate]] = {
    _S.OK:            (Fate.REMOVED,    Fate.REMOVED,       Fate.REMOVED),
    _S.FINISHED:      (Fate.REMOVED,    Fate.REMOVED,       Fate.REMOVED),
    _S.ABORT:         (Fate.SENT_AGAIN, Fate.DEAD_LETTERED, Fate.DEAD_LETTERED),
    _S.FAIL:          (Fate.SENT_AGAIN, Fate.DEAD_LETTERED, Fate.DEAD_LETTERED),
    _S.PENDING:       (Fate.SENT_AGAIN, Fate.SENT_AGAIN,    Fate.DEAD_LETTERED),
    _S.NOT_PROCESSED: (Fate.SENT_AGAIN, Fate.SENT_AGAIN,    Fate.DEAD_LETTERED),
}  # fmt: skip


@dataclass
class Round:
    """The receipts of one notification so far, and the errors of recipients that raised."""

    aggregate: ReceiptStatus = ReceiptStatus.NOT_PROCESSED
    errors: list[Exception] = field(default_factory=list)

    def take(self, receipt: ReceiptStatus) -> bool:
        """Notes a receipt; returns whether it ends the round."""
        if AGGREGATION[receipt].weight > AGGREGATION[self.aggregate].weight:
            self.aggregate = receipt
        return AGGREGATION[receipt].stops

    def fail(self, error: Exception) -> Round:
        """Notes the error of a recipient that raised, and returns the round; it counts as a failure."""
        self.errors.append(error)
        self.take(ReceiptStatus.FAIL)
        return self

    @property
    def answer(self) -> ReceiptStatus:
        """The answer of all receipts together."""
        return AGGREGATION[self.aggregate].answer

    @property
    def has_failed(self) -> bool:
        """Whether the round has failed or was aborted."""
        return self.aggregate in (ReceiptStatus.FAIL, ReceiptStatus.ABORT)

    def fate(self, timing: Timing) -> Fate:
        """The fate of the notification after this round."""
        return REMOVAL[self.aggregate][timing]


def described(errors: Sequence[Exception], aggregate: ReceiptStatus) -> str:
    """A line about how the last round went, for a dead letter or a log."""
    causes = "; ".join(f"{type(error).__name__}: {text_of(error)}" for error in errors)
    return storable(f"the last receipt was {aggregate}" + (f": {causes}" if causes else ""))
