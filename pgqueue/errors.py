"""The errors. Each class documents what is true once it was raised.

Every error carries ``is_transient`` (whether the same call may succeed later), the ``sqlstate`` that the database
raised, if any, and a ``tracking_id`` that also appears in the log. The private SQLSTATEs are listed in
``sql/README.md``.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from typing import ClassVar, Self

logger = logging.getLogger("pgqueue")


class PGQueueError(Exception):
    """A call was refused or failed; the subclass documents what is true now."""

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
    """This token no longer locks the message: it was delivered again, settled or dead-lettered since.

    Raised by the database. The transaction in which it was raised cannot commit, even if the error is swallowed, so
    nothing that was done in it for this delivery takes effect. Receive again; nothing needs to be undone.
    """

    default_sqlstate = "PQ001"


class SessionLockLostError(LockLostError):
    """This token no longer locks the session: it was accepted again since, or released.

    A kind of lost lock, raised by the database: the locks of its messages are lost with it, and nothing in the
    transaction in which it was raised takes effect. Accept the session again; its messages come in their order.
    """

    default_sqlstate = "PQ020"


class ConsumerFencedError(LockLostError):
    """Another session has attached to this consumer; calls with an earlier epoch are refused.

    A kind of lost lock, raised by the database: nothing in the transaction in which it was raised takes effect. The
    other session settles the claim.
    """

    default_sqlstate = "PQ010"


class QueueNotFoundError(PGQueueError):
    """No queue has this name; nothing was stored, received or changed."""

    default_sqlstate = "PQ002"


class QueueAlreadyExistsError(PGQueueError):
    """A queue with this name exists; it was not touched."""

    default_sqlstate = "PQ003"


class QueueDisabledError(PGQueueError):
    """The status of the queue forbids sending or receiving; nothing was stored or locked."""

    default_sqlstate = "PQ004"


class MessageSizeExceededError(PGQueueError):
    """A message is larger than its queue allows; nothing of the call was stored."""

    default_sqlstate = "PQ005"


class MessageNotFoundError(PGQueueError):
    """No message with this number is deferred, scheduled or locked, as the call requires; nothing was changed."""

    default_sqlstate = "PQ006"


class QueueFullError(PGQueueError):
    """The queue holds its maximum number of messages (``max_queue_length``); nothing of the call was stored.

    Transient: send again after messages were received.
    """

    is_transient = True
    default_sqlstate = "PQ008"


class DuplicateMessageError(PGQueueError):
    """Another message has the same ``unique_key``, and ``on_conflict`` is ``"raise"``; nothing was stored."""

    default_sqlstate = "PQ012"


class ConsumerInUseError(PGQueueError):
    """Another session receives under this consumer's name, for example a Spark stream; nothing was changed."""

    default_sqlstate = "PQ009"


class ScheduleNotFoundError(PGQueueError):
    """No schedule has this name; nothing was sent or changed."""

    default_sqlstate = "PQ030"


class ScheduleAlreadyExistsError(PGQueueError):
    """A schedule with this name exists; it was not touched."""

    default_sqlstate = "PQ031"


class SessionCannotBeLockedError(PGQueueError):
    """Another receiver holds this session; nothing was locked. The text names it, and the end of its lock.

    Transient: try again later, or accept the next session that is available.
    """

    is_transient = True
    default_sqlstate = "PQ021"


class TopicNotFoundError(PGQueueError):
    """No topic has this name; nothing was stored or changed."""

    default_sqlstate = "PQ040"


class TopicAlreadyExistsError(PGQueueError):
    """A topic with this name exists; it was not touched, and no queue can have its name."""

    default_sqlstate = "PQ041"


class BatchNotFoundError(PGQueueError):
    """No batch has this id, or it was finished more than a day ago; nothing was stored or changed."""

    default_sqlstate = "PQ050"


class BatchClosedError(PGQueueError):
    """The batch is closed and takes no more members; nothing of the call was stored."""

    default_sqlstate = "PQ051"


class NoSubscriptionError(PGQueueError):
    """No subscription of the topic matches a message that requires one; nothing of the call was stored."""

    default_sqlstate = "PQ042"


class RuleNotFoundError(PGQueueError):
    """The subscription has no rule with this name; nothing happened."""

    default_sqlstate = "PQ043"


class RuleAlreadyExistsError(PGQueueError):
    """The subscription has a rule with this name; it was not touched."""

    default_sqlstate = "PQ044"


class InvalidArgumentError(PGQueueError, ValueError):
    """An argument or a setting is invalid; the text names it and its value. Nothing was changed."""

    default_sqlstate = "PQ007"


class MessageNotSerializableError(PGQueueError, ValueError):
    """A message cannot be stored as it is; the text names the field. Nothing of the call was stored."""


class MessageNotReadableError(PGQueueError, ValueError):
    """A body or other JSON in the database cannot be read: it is nested too deeply, or encrypted with another key.

    Or it has too large a number, or was changed after it was encrypted. The text names its message, queue or effect.
    Nothing was changed: the message can be settled like any other, and ``raw_body`` and ``raw_application_properties``
    hold what is stored. :meth:`~pgqueue.Queue.send` never stores such JSON; SQL can.
    """


class InvalidStateError(PGQueueError):
    """The call is illegal in the state of this delivery (see ``docs/lifecycle.md``); the state did not change."""


class MessageAlreadySettledError(InvalidStateError):
    """This delivery was already completed, dead-lettered or abandoned. That stands."""


class FaultedError(InvalidStateError):
    """This delivery was faulted and is in doubt: the message is gone, or is delivered again when its lock expires."""


class TransactionRequiredError(PGQueueError):
    """The library cannot take part in the given transaction; this call changed nothing.

    The ``transaction`` argument has no open transaction, or one that has failed or is already prepared. Or the library
    began the transaction, and its work calls ``commit()`` or ``rollback()``, has ended it, or occupies its connection.
    """


class TransactionConflictError(PGQueueError):
    """The database aborted the transaction: a serialization failure, a deadlock or a lock it could not get.

    Nothing in that transaction takes effect, and the message is still locked by the same token: begin the transaction
    again.
    """

    is_transient = True


class OperationTimeoutError(PGQueueError):
    """No connection was available in time, or the statement was cancelled; nothing was changed.

    A send whose ``result()`` timed out is still in flight, and gets its outcome later.
    """

    is_transient = True


class WrongTransactionError(TransactionRequiredError):
    """The message is pinned in another transaction; this call settled nothing.

    The work has ended the transaction that was begun for its message, or settles it on another connection. Statements
    that the work ran after that end were committed one by one; roll back an open transaction. Where the connection does
    not show it, the database raises this error.
    """

    default_sqlstate = "PQ011"


class SettlementUndoneError(PGQueueError):
    """Work has settled its message in a transaction that was not committed, and has raised no error.

    The transaction, or the savepoint in it, was rolled back, or failed by an error that the work swallowed, or was left
    open. Nothing of it was committed, so the message is not completed: a worker follows its ``RetryPolicy``.
    """


class ReadOnlyError(PGQueueError):
    """The transaction or the server is read-only; nothing was changed.

    The transaction was begun READ ONLY, or ``default_transaction_read_only`` is on, or the server is a standby.
    ``is_transient`` is true only for a standby, which may be promoted.
    """


class OutOfResourcesError(PGQueueError):
    """The server has run out of disk space, memory or another resource; nothing was changed.

    Transient: the same call succeeds once there is room.
    """

    is_transient = True


class ConnectionLostError(PGQueueError):
    """The connection to the database could not be made, or broke, or was closed because no answer came in time.

    The call has taken effect as a whole, or not at all.
    A settlement in progress is in doubt: its state is COMPLETING until ``received.resolve()``, or the next call on the
    message, has asked the database. If that call is the same settlement again, it either succeeds, or raises
    :class:`MessageAlreadySettledError` because the first one had succeeded.

    ``is_transient`` is false where the server refuses every connection: an unknown database or role, a wrong password.
    """

    is_transient = True


class CommitInDoubtError(ConnectionLostError):
    """The connection broke during COMMIT, and the database could not report the outcome of the transaction.

    It does not answer yet, or a crash or failover has come between. The work and the completion are either both done or
    both undone. ``received.resolve()`` asks again.
    """

    is_transient = False


class SendError(PGQueueError, ExceptionGroup[PGQueueError]):
    """Sends failed, and their outcomes were not read.

    Nothing of them is stored, unless there is a :class:`CommitInDoubtError` among the errors: then this is unknown.

    ``exceptions`` holds one error for each send, so ``except*`` finds them by class. The error is transient if all of
    them are, and has their SQLSTATE if they all have the same one.
    """

    def __new__(cls, message: str, failures: Sequence[PGQueueError], **_: str | None) -> Self:
        """Create the group; an exception group takes its errors in ``__new__``."""
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

    def derive(self, failures: Sequence[PGQueueError]) -> SendError:  # type: ignore[override]  # its errors keep their type
        """Return a group of some of these errors, for ``except*`` and ``split``."""
        return SendError(self.message, failures, tracking_id=self.tracking_id)


class AccessDeniedError(PGQueueError):
    """The database role lacks the privilege; nothing was changed."""


class SchemaVersionError(PGQueueError):
    """The schema in the database does not fit this version of pgqueue; nothing was changed."""


class UnsupportedSourceError(PGQueueError, TypeError):
    """This call cannot use the given object as a source of connections or transactions; nothing was sent."""


class HandlerTimeoutError(PGQueueError):
    """A handler exceeded its worker's ``handler_timeout``; nothing that it did in its transaction takes effect.

    Its message is settled by the worker's policy. The handler's later actions are ignored.
    """


class NoHandlerError(PGQueueError):
    """No handler of the worker takes the subject of this message; nothing was done for it.

    The message is settled by the worker's policy: a newer version of the application may have a handler for it.
    """


class InterceptorError(PGQueueError):
    """An interceptor has not passed on exactly once what it was given; the text names its class.

    Nothing is stored of a send that it has not passed on. In the handling of a message it is a failure of the handler.
    """


class DeadLetter(Exception):
    """Raise it in a handler or in work to dead-letter the message with a reason; it is not retried.

    Raise it ``from`` another exception to keep that as the message's ``last_error``.

    >>> raise DeadLetter("UnknownCustomer", "customer 7 is not in the ledger")   # doctest: +SKIP
    """

    def __init__(self, reason: str, description: str | None = None) -> None:
        super().__init__(reason, description)
        self.reason = reason
        self.description = description

    def __str__(self) -> str:
        return self.reason if self.description is None else f"{self.reason}: {self.description}"


#: The classes with an SQLSTATE of their own, and those of PostgreSQL's.
BY_SQLSTATE: dict[str, type[PGQueueError]] = {
    kind.default_sqlstate: kind
    for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, PGQueueError) and kind.default_sqlstate
} | {
    "25006": ReadOnlyError,  # read_only_sql_transaction
    "25P02": TransactionRequiredError,  # in_failed_sql_transaction
    "25P03": ConnectionLostError,  # idle_in_transaction_session_timeout
    "25P04": ConnectionLostError,  # transaction_timeout
    "40002": PGQueueError,  # transaction_integrity_constraint_violation: no conflict with anybody
    "40003": ConnectionLostError,  # statement_completion_unknown
    "53300": ConnectionLostError,  # too_many_connections
    "53400": PGQueueError,  # configuration_limit_exceeded: does not pass by itself
    "55P03": TransactionConflictError,  # lock_not_available
    "57014": OperationTimeoutError,  # query_canceled
    "42501": AccessDeniedError,
    "3F000": SchemaVersionError,
    "42703": SchemaVersionError,
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
    "53": OutOfResourcesError,
}


def error_class(sqlstate: str | None) -> type[PGQueueError] | None:
    """The error class for an SQLSTATE, or None when pgqueue has no class for it."""
    if sqlstate is None:
        return None
    return BY_SQLSTATE.get(sqlstate) or BY_SQLSTATE_CLASS.get(sqlstate[:2])


def sqlstate_of(error: BaseException | None) -> str | None:
    """The SQLSTATE of a driver's error, which psycopg2 calls ``pgcode``; None if it has none."""
    found: str | None = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return found
