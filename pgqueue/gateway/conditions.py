"""Errors as conditions of AMQP, from which the SDKs make their exceptions, and as status codes of HTTP."""

from __future__ import annotations

import logging
from http import HTTPStatus

from pgqueue import errors
from pgqueue.gateway.amqp.performatives import Error
from pgqueue.gateway.amqp.types import DecodeError, Symbol

logger = logging.getLogger("pgqueue.gateway")

TIMEOUT = "com.microsoft:timeout"
NOT_ALLOWED, NOT_FOUND, NOT_IMPLEMENTED = "amqp:not-allowed", "amqp:not-found", "amqp:not-implemented"
UNAUTHORIZED, DECODING, INTERNAL = "amqp:unauthorized-access", "amqp:decode-error", "amqp:internal-error"
FRAMING, STOPPED, LIMIT = "amqp:connection:framing-error", "amqp:connection:forced", "amqp:resource-limit-exceeded"
DETACHED, TOO_LARGE = "amqp:link:detach-forced", "amqp:link:message-size-exceeded"
UNKNOWN_TRANSACTION, ROLLED_BACK = "amqp:transaction:unknown-id", "amqp:transaction:rollback"
ARGUMENT, BUSY, LOCK_LOST = (
    "com.microsoft:argument-error",
    "com.microsoft:server-busy",
    "com.microsoft:message-lock-lost",
)
SESSION_LOCK_LOST = "com.microsoft:session-lock-lost"

#: The first class that an error is an instance of decides.
CONDITIONS: dict[type[Exception], tuple[str, HTTPStatus]] = {
    errors.SessionLockLostError: (SESSION_LOCK_LOST, HTTPStatus.GONE),
    errors.LockLostError: (LOCK_LOST, HTTPStatus.GONE),
    errors.InvalidStateError: (LOCK_LOST, HTTPStatus.GONE),
    errors.SessionCannotBeLockedError: ("com.microsoft:session-cannot-be-locked", HTTPStatus.GONE),
    errors.MessageNotFoundError: ("com.microsoft:message-not-found", HTTPStatus.NOT_FOUND),
    errors.QueueNotFoundError: (NOT_FOUND, HTTPStatus.NOT_FOUND),
    errors.TopicNotFoundError: (NOT_FOUND, HTTPStatus.NOT_FOUND),
    errors.RuleNotFoundError: (NOT_FOUND, HTTPStatus.NOT_FOUND),
    errors.QueueAlreadyExistsError: ("com.microsoft:entity-already-exists", HTTPStatus.CONFLICT),
    errors.TopicAlreadyExistsError: ("com.microsoft:entity-already-exists", HTTPStatus.CONFLICT),
    errors.RuleAlreadyExistsError: ("com.microsoft:entity-already-exists", HTTPStatus.CONFLICT),
    errors.QueueDisabledError: ("com.microsoft:entity-disabled", HTTPStatus.FORBIDDEN),
    errors.QueueFullError: (LIMIT, HTTPStatus.FORBIDDEN),
    errors.MessageSizeExceededError: (TOO_LARGE, HTTPStatus.BAD_REQUEST),
    errors.AccessDeniedError: (UNAUTHORIZED, HTTPStatus.UNAUTHORIZED),
    errors.OperationTimeoutError: (TIMEOUT, HTTPStatus.REQUEST_TIMEOUT),
    errors.InvalidArgumentError: (ARGUMENT, HTTPStatus.BAD_REQUEST),
    errors.MessageNotSerializableError: (ARGUMENT, HTTPStatus.BAD_REQUEST),
    errors.PGQueueError: (INTERNAL, HTTPStatus.INTERNAL_SERVER_ERROR),
    DecodeError: (DECODING, HTTPStatus.BAD_REQUEST),
}


#: The status codes of what the gateway itself refuses; all others are bad requests.
STATUSES = {
    UNAUTHORIZED: HTTPStatus.UNAUTHORIZED,
    NOT_FOUND: HTTPStatus.NOT_FOUND,
    NOT_IMPLEMENTED: HTTPStatus.NOT_IMPLEMENTED,
}


class Refusal(errors.PGQueueError):
    """A request of a client is refused, with this condition of AMQP."""

    def __init__(self, condition: str, message: str, status: HTTPStatus | None = None) -> None:
        super().__init__(message)
        self.condition, self.status = condition, status or STATUSES.get(condition, HTTPStatus.BAD_REQUEST)


def described(failure: Exception) -> tuple[str, HTTPStatus]:
    """The condition of an error, and its status code. For errors that are transient it is that of a busy server."""
    if isinstance(failure, Refusal):
        return failure.condition, failure.status
    found = next((known for kind, known in CONDITIONS.items() if isinstance(failure, kind)), None)
    if found is None or found[0] == INTERNAL:
        is_busy = isinstance(failure, errors.PGQueueError) and failure.is_transient
        return (BUSY, HTTPStatus.SERVICE_UNAVAILABLE) if is_busy else (INTERNAL, HTTPStatus.INTERNAL_SERVER_ERROR)
    return found


def text_of(failure: Exception) -> str:
    """The text of an error for a client. Errors of the database are not for everybody: these are in the log."""
    tracking_id = getattr(failure, "tracking_id", None)
    if not isinstance(failure, Refusal | DecodeError) and described(failure)[0] in (INTERNAL, BUSY):
        return f"the gateway cannot do this now [tracking id {tracking_id}]" if tracking_id else "an internal error"
    return str(failure)


def log(error: BaseException, what: str) -> None:
    """Log a refusal in one line, and an unexpected error with its traceback."""
    is_known = isinstance(error, errors.PGQueueError | DecodeError)
    logger.log(
        logging.INFO if is_known else logging.ERROR, "%s: %s", what, error,
        exc_info=None if is_known else error, extra={"tracking_id": getattr(error, "tracking_id", "")},
    )  # fmt: skip


def error_of(failure: Exception) -> Error:
    """The error of AMQP, which has all three fields: some SDKs do not read it otherwise."""
    condition, text = described(failure)[0], text_of(failure)
    if condition == NOT_FOUND:  # an SDK looks for these words
        text = f"The messaging entity that was named could not be found: {text}"
    return Error(Symbol(condition), text, {Symbol("tracking-id"): getattr(failure, "tracking_id", "")})
