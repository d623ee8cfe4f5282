"""What can go wrong, as facts with a promise: each class says what is true once it was raised.

Every error carries ``is_transient`` (would the same call help later?), the ``sqlstate`` the database raised, if it
did, and a ``tracking_id`` that also stands in the log. The private SQLSTATEs are listed in ``sql/README.md``.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from typing import ClassVar, Self

logger = logging.getLogger("pgqueue")


class PGQueueError(Exception):
    """Something was refused or failed; the subclass says what is true now."""

    is_transient: bool = False
    default_sqlstate: ClassVar[str | None] = None

    def __init__(self, message: str, *, sqlstate: str | None = None, tracking_id: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate or self.default_sqlstate
        self.tracking_id = tracking_id or uuid.uuid4().hex[:12]
        logger.debug("%s: %s", type(self).__name__, self, extra={"tracking_id": self.tracking_id})

    def __str__(self) -> str:
        return f"{super().__str__()} [tracking id {self.tracking_id}]"


class LockLostError(PGQueueError):
    """The message is not locked by this token: it was delivered again, settled or dead-lettered since.

    Raised by the database. A transaction in which it was raised cannot commit, even if the error is swallowed, so
    none of the work done for this delivery counts. Receive again; nothing needs to be undone.
    """

    default_sqlstate = "PQ001"


class ConsumerFencedError(LockLostError):
    """Another session has attached to this consumer; calls with an earlier epoch are refused.

    A lost lock, raised by the database: nothing of a transaction in which it was raised counts. The claim is settled
    by the other session.
    """

    default_sqlstate = "PQ010"


class QueueNotFoundError(PGQueueError):
    """No queue has that name; nothing was stored, received or changed."""

    default_sqlstate = "PQ002"


class QueueAlreadyExistsError(PGQueueError):
    """A queue of that name exists; it was not touched."""

    default_sqlstate = "PQ003"


class QueueDisabledError(PGQueueError):
    """The queue's status forbids sending or receiving; nothing was stored or locked."""

    default_sqlstate = "PQ004"


class MessageSizeExceededError(PGQueueError):
    """A message is larger than its queue allows; nothing of the call was stored."""

    default_sqlstate = "PQ005"


class MessageNotFoundError(PGQueueError):
    """No message with that number is deferred, or scheduled, as the call wants it; nothing was changed."""

    default_sqlstate = "PQ006"


class QueueFullError(PGQueueError):
    """The queue holds as many messages as it may (``max_queue_length``); nothing of the call was stored.

    Transient: send it again when some were received.
    """

    is_transient = True
    default_sqlstate = "PQ008"


class ConsumerInUseError(PGQueueError):
    """Another session takes messages under this consumer's name, as a stream of Spark does; nothing was changed."""

    default_sqlstate = "PQ009"


class InvalidArgumentError(PGQueueError, ValueError):
    """An argument or a setting is not what it may be; the text names both. Nothing was changed."""

    default_sqlstate = "PQ007"


class MessageNotSerializableError(PGQueueError, ValueError):
    """A message cannot be stored as it is; the text names the field. Nothing of the call was stored."""


class MessageNotReadableError(PGQueueError, ValueError):
    """Python cannot read JSON that the database holds: it is nested too deeply, or has a number beyond all bounds.

    The text says whose it is. Nothing was changed: a message is settled like any other, ``raw_body`` and
    ``raw_application_properties`` have the JSON as text. :meth:`~pgqueue.Queue.send` stores no such message, SQL may.
    """


class InvalidStateError(PGQueueError):
    """The call is illegal in the state this delivery is in (see ``docs/lifecycle.md``); the state did not change."""


class MessageAlreadySettledError(InvalidStateError):
    """This delivery is over: it was completed, dead-lettered or abandoned. That stands."""


class FaultedError(InvalidStateError):
    """This delivery was faulted and is in doubt: the message is gone, or delivered again when its lock expires."""


class TransactionRequiredError(PGQueueError):
    """No transaction could be shared with the library; nothing was changed.

    What was given as ``transaction`` has none that is open, or one that has failed or is already prepared.
    """


class TransactionConflictError(PGQueueError):
    """The database aborted the transaction: a serialization failure, a deadlock or a lock it could not get.

    Nothing of that transaction counts, and the message is still locked by the same token: begin it again.
    """

    is_transient = True


class OperationTimeoutError(PGQueueError):
    """The database or the connection pool did not answer in time; nothing was changed.

    A send whose ``result()`` was not there in time is still out, and has its outcome later.
    """

    is_transient = True


class ReadOnlyError(PGQueueError):
    """The transaction, or the server, may only read; nothing was changed.

    It was begun READ ONLY, or ``default_transaction_read_only`` is on, or the server is a standby: only that may pass,
    and only then ``is_transient`` is true.
    """


class ConnectionLostError(PGQueueError):
    """The connection to the database could not be made, or broke.

    A settlement that was under way is in doubt: its state is COMPLETING until ``received.resolve()``, or the next call
    on the message, has asked. If that is the same settlement again, it either succeeds, or raises
    :class:`MessageAlreadySettledError` because the first one had succeeded.
    """

    is_transient = True


class CommitInDoubtError(ConnectionLostError):
    """The connection broke during COMMIT, and the database could not yet say what became of the transaction.

    The work and the completion are either both done or both undone. ``received.resolve()`` asks again.
    """

    is_transient = False


class SendError(PGQueueError, ExceptionGroup[PGQueueError]):
    """Sends failed, and nobody read their outcomes.

    Nothing of them is stored, except where a :class:`CommitInDoubtError` among the errors says that this is not known.

    ``exceptions`` holds an error for each send, so that ``except*`` finds them by class. The error is transient if all
    of them are, and has their SQLSTATE if they share one.
    """

    def __new__(cls, message: str, failures: Sequence[PGQueueError], **_: str | None) -> Self:
        """Make the group; an exception group takes its errors here."""
        return super().__new__(cls, message, failures)

    def __init__(
        self,
        message: str,
        failures: Sequence[PGQueueError],
        *,
        sqlstate: str | None = None,
        tracking_id: str | None = None,
    ) -> None:
        sqlstates = {failure.sqlstate for failure in failures}
        super().__init__(
            message, sqlstate=sqlstate or (sqlstates.pop() if len(sqlstates) == 1 else None), tracking_id=tracking_id
        )
        self.args = (message, failures)
        self.is_transient = all(failure.is_transient for failure in failures)

    def derive(self, failures: Sequence[PGQueueError]) -> SendError:  # type: ignore[override]  # they stay what they are
        """A group of some of these errors, as ``except*`` and ``split`` ask for."""
        return SendError(self.message, failures, tracking_id=self.tracking_id)


class AccessDeniedError(PGQueueError):
    """The database role may not do this; nothing was changed."""


class SchemaVersionError(PGQueueError):
    """The schema in the database does not fit this version of pgqueue; nothing was changed."""


class UnsupportedSourceError(PGQueueError, TypeError):
    """What was given is not a source of connections or transactions that this call can use; nothing was sent."""


class HandlerTimeoutError(PGQueueError):
    """A handler ran longer than its worker allows; nothing that it did in its transaction counts.

    Its message is settled as the worker's policy says. What the handler still does is not listened to.
    """


class DeadLetter(Exception):
    """Raised by work: dead-letter this message with a reason; trying again would not help.

    >>> raise DeadLetter("UnknownCustomer", "customer 7 is not in the ledger")   # doctest: +SKIP
    """

    def __init__(self, reason: str, description: str | None = None) -> None:
        super().__init__(reason if description is None else f"{reason}: {description}")
        self.reason = reason
        self.description = description


BY_SQLSTATE: dict[str, type[PGQueueError]] = {
    kind.default_sqlstate: kind
    for kind in (
        LockLostError,
        QueueNotFoundError,
        QueueAlreadyExistsError,
        QueueDisabledError,
        MessageSizeExceededError,
        MessageNotFoundError,
        InvalidArgumentError,
        QueueFullError,
        ConsumerInUseError,
        ConsumerFencedError,
    )
    if kind.default_sqlstate
} | {
    "25006": ReadOnlyError,  # read_only_sql_transaction
    "25P02": TransactionRequiredError,  # in_failed_sql_transaction
    "25P03": ConnectionLostError,  # idle_in_transaction_session_timeout
    "25P04": ConnectionLostError,  # transaction_timeout
    "40002": PGQueueError,  # transaction_integrity_constraint_violation: no conflict with anybody
    "40003": ConnectionLostError,  # statement_completion_unknown
    "53300": ConnectionLostError,  # too_many_connections
    "55P03": TransactionConflictError,  # lock_not_available
    "57014": OperationTimeoutError,  # query_canceled
    "42501": AccessDeniedError,
    "3F000": SchemaVersionError,
    "42883": SchemaVersionError,
    "42P01": SchemaVersionError,
    "57P01": ConnectionLostError,  # admin_shutdown
    "57P02": ConnectionLostError,  # crash_shutdown
    "57P03": ConnectionLostError,  # cannot_connect_now
    "57P04": ConnectionLostError,  # database_dropped
    "57P05": ConnectionLostError,  # idle_session_timeout
}

BY_SQLSTATE_CLASS: dict[str, type[PGQueueError]] = {
    "08": ConnectionLostError,
    "28": AccessDeniedError,
    "40": TransactionConflictError,
}


def error_class(sqlstate: str | None) -> type[PGQueueError] | None:
    """The class that stands for an SQLSTATE, or None when it is none of ours to name."""
    if sqlstate is None:
        return None
    return BY_SQLSTATE.get(sqlstate) or BY_SQLSTATE_CLASS.get(sqlstate[:2])
