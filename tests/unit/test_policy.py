from __future__ import annotations

import asyncpg
import psycopg
import psycopg.errors
import psycopg2.errors
import psycopg_pool
import pytest
import sqlalchemy.exc
import tenacity
from tenacity.asyncio.retry import retry_if_exception

from pgqueue import errors
from pgqueue.model.calls import UnfinishedError
from pgqueue.model.policy import is_transient, retry_policy

PASSING = [
    errors.TransactionConflictError("conflict"),
    errors.OperationTimeoutError("late"),
    errors.ConnectionLostError("gone"),
    psycopg.errors.SerializationFailure("could not serialize access"),
    psycopg.errors.DeadlockDetected("deadlock detected"),
    psycopg.errors.LockNotAvailable("could not obtain lock"),
    psycopg.errors.AdminShutdown("terminating connection"),
    psycopg.errors.CrashShutdown("terminating connection"),
    psycopg.errors.CannotConnectNow("starting up"),
    psycopg.errors.TooManyConnections("too many clients"),
    psycopg.errors.ConnectionFailure("connection failure"),
    psycopg.errors.QueryCanceled("statement timeout"),
    psycopg.errors.DiskFull("no space left"),
    psycopg.errors.OutOfMemory("out of memory"),
    psycopg.OperationalError("server closed the connection unexpectedly"),
    psycopg_pool.PoolTimeout("no connection in time"),
]

LASTING = [
    ZeroDivisionError(),
    errors.LockLostError("lost"),
    errors.QueueNotFoundError("unknown"),
    errors.CommitInDoubtError("unknown outcome"),
    errors.DeadLetter("Hopeless"),
    psycopg.errors.UniqueViolation("duplicate key"),
    psycopg.errors.SyntaxError("at or near"),
    psycopg.errors.ConfigurationLimitExceeded("temporary file size exceeds temp_file_limit"),
    psycopg.ProgrammingError("the connection does not like this"),
    psycopg.InterfaceError("wrong use"),
    OSError("no such file"),
]


def name(error: BaseException) -> str:
    return type(error).__name__


@pytest.mark.parametrize("error", PASSING, ids=name)
def test_passing_errors_are_transient(error: Exception) -> None:
    assert is_transient(error)


@pytest.mark.parametrize("error", LASTING, ids=name)
def test_lasting_errors_are_not_transient(error: Exception) -> None:
    assert not is_transient(error)


@pytest.mark.parametrize("error", PASSING[3:] + LASTING[5:9], ids=name)
def test_sqlalchemy_errors_are_judged_by_their_cause(error: Exception) -> None:
    wrapped = sqlalchemy.exc.DBAPIError.instance("select 1", {}, error, psycopg.Error)
    assert isinstance(wrapped, sqlalchemy.exc.DBAPIError)
    assert is_transient(wrapped) is is_transient(error)


class OutOfFiles(psycopg2.OperationalError):
    pgcode = "53400"


OF_OTHER_DRIVERS = {
    asyncpg.SerializationError("could not serialize access"): True,
    asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"): True,
    asyncpg.InterfaceError("cannot perform operation: connection is closed"): True,
    asyncpg.InterfaceError("cannot call Connection.fetch(): connection has been released back to the pool"): True,
    asyncpg.InterfaceError("cannot perform operation: another operation is in progress"): False,
    asyncpg.UniqueViolationError("duplicate key"): False,
    psycopg2.OperationalError("server closed the connection unexpectedly"): True,
    psycopg2.InterfaceError("connection already closed"): True,
    psycopg2.InterfaceError("cursor already closed"): False,
    psycopg2.errors.UniqueViolation("duplicate key"): False,
    OutOfFiles("temporary file size exceeds temp_file_limit"): False,
}


@pytest.mark.parametrize("error", OF_OTHER_DRIVERS, ids=str)
def test_errors_of_other_drivers(error: Exception) -> None:
    assert is_transient(error) is OF_OTHER_DRIVERS[error]


def test_every_error_of_ours_declares_whether_it_is_transient() -> None:
    transient = {
        kind for kind in vars(errors).values() if isinstance(kind, type) and getattr(kind, "is_transient", False)
    }
    assert transient == {
        errors.TransactionConflictError,
        errors.OperationTimeoutError,
        errors.ConnectionLostError,
        errors.OutOfResourcesError,
        errors.QueueFullError,
        errors.SessionCannotBeLockedError,
    }


def tries_of(policy: tenacity.Retrying, error: Exception) -> int:
    policy = policy.copy(sleep=lambda _: None)
    with pytest.raises(type(error)):
        policy(throw, error)
    return int(policy.statistics["attempt_number"])


def throw(error: Exception) -> None:
    raise error


def test_by_default_a_transaction_is_tried_five_times() -> None:
    policy = retry_policy(None)
    assert tries_of(policy, errors.TransactionConflictError("again")) == 5
    assert tries_of(policy, ZeroDivisionError()) == 1


def test_a_policy_of_the_caller_decides_how_often_and_how_far_apart() -> None:
    waited: list[float] = []
    for kind in (tenacity.Retrying, tenacity.AsyncRetrying):
        policy = kind(stop=tenacity.stop_after_attempt(3), wait=tenacity.wait_fixed(7), reraise=False)
        with pytest.raises(errors.ConnectionLostError):
            retry_policy(policy).copy(sleep=waited.append)(throw, errors.ConnectionLostError("gone"))
        assert tries_of(retry_policy(policy), ZeroDivisionError()) == 1
    assert waited == [7, 7, 7, 7]


def test_an_invalid_policy_is_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="retry must be a"):
        retry_policy(5)  # type: ignore[arg-type]


def test_the_predicate_of_a_policy_decides_which_errors_are_retried() -> None:
    for kind in (tenacity.Retrying, tenacity.AsyncRetrying):
        policy = kind(stop=tenacity.stop_after_attempt(3), retry=tenacity.retry_if_exception_type(ZeroDivisionError))
        assert tries_of(retry_policy(policy), ZeroDivisionError()) == 3
        assert tries_of(retry_policy(policy), errors.ConnectionLostError("gone")) == 1


HOPELESS = [
    errors.LockLostError("lost"),
    errors.FaultedError("in doubt"),
    errors.DeadLetter("Hopeless"),
    UnfinishedError("a coroutine was returned"),
]


@pytest.mark.parametrize("error", HOPELESS, ids=name)
def test_no_predicate_retries_an_error_that_every_attempt_would_meet(error: Exception) -> None:
    policy = tenacity.Retrying(stop=tenacity.stop_after_attempt(3), retry=tenacity.retry_if_exception_type(Exception))
    assert tries_of(retry_policy(policy), error) == 1


async def accepted(error: BaseException) -> bool:
    return True


@pytest.mark.parametrize(
    "policy",
    [
        tenacity.Retrying(retry=tenacity.retry_if_result(lambda result: result is None)),
        tenacity.AsyncRetrying(retry=retry_if_exception(accepted)),
        tenacity.Retrying(retry_error_callback=lambda state: None),
    ],
    ids=["a predicate of results", "a predicate to be awaited", "a callback"],
)
def test_parts_of_a_policy_that_would_have_no_effect_are_refused(policy: tenacity.BaseRetrying) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="retry decides on errors only"):
        retry_policy(policy)
