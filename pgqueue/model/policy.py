"""Which failures are retried, and how often: decisions as values.

For transactions and sends, and for messages that ``process()`` abandons. The policy for handlers that fail is in
:mod:`pgqueue.worker.policy`, and growing pauses are in :mod:`pgqueue.model.backoff`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import tenacity
from tenacity.asyncio.retry import async_retry_base

from pgqueue.errors import (
    DeadLetter,
    InvalidArgumentError,
    InvalidStateError,
    LockLostError,
    PGQueueError,
    error_class,
    sqlstate_of,
)
from pgqueue.model.arguments import shown
from pgqueue.model.calls import UnfinishedError

#: libpq passes on no SQLSTATE of a refused connection. Servers that speak another language are not understood.
FOR_GOOD = re.compile(
    r'FATAL: +(database|role) ".*" does not exist'
    r"|FATAL: +\w+ authentication failed"
    r"|FATAL: +no pg_hba.conf entry"
    r'|FATAL: +role ".*" is not permitted to log in'
    r"|fe_sendauth: no password supplied"
)
#: asyncpg and psycopg2 call the loss of a connection a wrong use of it.
LOST = re.compile(r"connection (?:is|was|already|has been) (?:closed|released)")
ATTEMPT = re.compile(r"connection to server (?:at|on) .* failed:")


def is_refused_for_good(refusal: str) -> bool:
    """Whether each server that was asked for a connection has refused it, for a reason that does not pass by itself."""
    return 0 < len(ATTEMPT.findall(refusal)) <= len(FOR_GOOD.findall(refusal))


def is_transient(error: BaseException) -> bool:
    """Whether retrying the transaction may help: after a conflict, a deadlock or a lost connection.

    Drivers' errors are judged by their SQLSTATE, SQLAlchemy's by the driver error they wrap. An OperationalError
    without an SQLSTATE means that the server did not answer, or has refused the connection; so does an InterfaceError
    about a connection that is closed.
    """
    if isinstance(error, PGQueueError):
        return error.is_transient
    original = getattr(error, "orig", None)
    if isinstance(original, BaseException):
        return is_transient(original)
    sqlstate = sqlstate_of(error)
    if sqlstate is None:
        names = {kind.__name__ for kind in type(error).__mro__}  # they are PEP 249's
        if "OperationalError" in names:
            return not is_refused_for_good(str(error))
        return "InterfaceError" in names and LOST.search(str(error)) is not None
    kind = error_class(sqlstate)
    return kind is not None and kind.is_transient


Predicate = Callable[[tenacity.RetryCallState], bool]

#: It is called with the number of an attempt that failed, and with its error.
OnRetry = Callable[[int, BaseException], object]

TRANSIENT = tenacity.retry_if_exception(is_transient)

#: The predicates of policies that were made without one.
NO_PREDICATE = (tenacity.Retrying().retry, tenacity.AsyncRetrying().retry)

#: Errors that every further attempt on the same lock would meet, and a verdict that is no failure.
HOPELESS = (LockLostError, InvalidStateError, UnfinishedError, DeadLetter)

#: Predicates that cannot be asked: nothing is known but an error, and the answer is not awaited.
UNASKABLE = (tenacity.retry_if_result, tenacity.retry_if_not_result, async_retry_base)


def default_retry(attempts: int = 5) -> tenacity.Retrying:
    """This many attempts of a transaction on one lock, 50 ms apart at first, doubling, with jitter."""
    return retry_policy(
        tenacity.Retrying(
            stop=tenacity.stop_after_attempt(attempts),
            wait=tenacity.wait_exponential(multiplier=0.05, max=2) + tenacity.wait_random(0, 0.05),
        )
    )


def retry_policy(policy: tenacity.BaseRetrying | None) -> tenacity.Retrying:
    """Take the number and intervals of attempts from the caller's policy or the default.

    Without a predicate, its ``retry``, transient errors are retried; with one, those that it accepts, if another
    attempt can succeed at all.

    Raises:
        InvalidArgumentError: it is no policy, or has a part that would have no effect.
    """
    if policy is None:
        return default_retry()
    if not isinstance(policy, tenacity.BaseRetrying):
        raise InvalidArgumentError(f"retry must be a tenacity.Retrying, not {shown(policy)}")
    if policy.retry_error_callback is not None or isinstance(policy.retry, UNASKABLE):
        raise InvalidArgumentError(
            "retry decides on errors only: leave out retry_error_callback, and predicates of results or to be awaited"
        )
    return tenacity.Retrying(
        stop=policy.stop,
        wait=policy.wait,
        before=policy.before,
        after=policy.after,
        before_sleep=policy.before_sleep,
        retry=TRANSIENT if policy.retry in NO_PREDICATE else _unless_hopeless(policy.retry),
        reraise=True,
    )


def _unless_hopeless(predicate: Predicate) -> Predicate:
    def accepts(state: tenacity.RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome else None
        return not isinstance(error, HOPELESS) and predicate(state)

    return accepts


class Tries:
    """The attempts made under a :func:`retry_policy`. Use it in one thread: tenacity counts attempts by thread.

    The state of tenacity is created after the first failure: failures are rare, and creating it takes longer than a
    statement.
    """

    def __init__(self, policy: tenacity.Retrying) -> None:
        self._policy = policy
        self._state: tenacity.RetryCallState | None = None

    @property
    def number(self) -> int:
        """The number of this attempt, from 1."""
        return self._state.attempt_number if self._state else 1

    def begin(self) -> None:
        """Announces an attempt to the policy."""
        if self._policy.before is not tenacity.before_nothing:
            self._policy.before(self._known())

    def pause_after(self, error: Exception, on_retry: OnRetry | None = None) -> timedelta | None:
        """Returns the wait before the next attempt, or None if there is none; calls ``on_retry`` if there is one."""
        state = self._known()
        policy = self._policy.copy()  # it would keep the error, and what the frames of its traceback hold
        policy.begin()
        state.set_exception((type(error), error, error.__traceback__))
        try:
            pause = policy.iter(retry_state=state)
        except Exception as verdict:
            if verdict is not error:
                raise
            return None
        assert isinstance(pause, tenacity.DoSleep), "a failed attempt is not repeated at once"
        if on_retry is not None:
            on_retry(state.attempt_number, error)
        state.prepare_for_next_attempt()
        return timedelta(seconds=pause)

    def _known(self) -> tenacity.RetryCallState:
        if self._state is None:
            self._state = tenacity.RetryCallState(self._policy, None, (), {})
        return self._state
