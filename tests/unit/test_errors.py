from __future__ import annotations

import inspect
import logging
import pickle
import re
from pathlib import Path

import pytest

from pgqueue import errors
from pgqueue.errors import BY_SQLSTATE, PGQueueError, error_class

KINDS = [
    kind
    for kind in vars(errors).values()
    if inspect.isclass(kind) and issubclass(kind, PGQueueError) and kind.__module__ == errors.__name__
]

# A group needs the errors it consists of.
SINGLE = [kind for kind in KINDS if kind is not errors.SendError]

# The state that is certain once an error of ours was raised: nothing happened, all of it, or how to find out.
PROMISE = re.compile(
    r"\b(nothing|was not touched|did not change|that stands|is gone, or|either|succeeds, or|what is true)\b",
    re.IGNORECASE,
)

SQL_PAGE = Path(__file__).parents[2] / "sql" / "README.md"


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_states_what_is_true_now(kind: type[PGQueueError]) -> None:
    assert kind.__doc__
    assert kind.__doc__ != PGQueueError.__doc__ or kind is PGQueueError
    assert PROMISE.search(kind.__doc__), f"{kind.__name__} does not state what is true now"


@pytest.mark.parametrize("kind", SINGLE)
def test_every_error_carries_whether_it_may_pass_its_sqlstate_and_a_tracking_id(kind: type[PGQueueError]) -> None:
    error = kind("something happened")
    assert isinstance(error.is_transient, bool)
    assert error.sqlstate == kind.default_sqlstate
    assert re.fullmatch("[0-9a-f]{12}", error.tracking_id)
    assert str(error) == f"something happened [tracking id {error.tracking_id}]"
    assert kind("x", sqlstate="XX000").sqlstate == "XX000"
    assert kind("x", tracking_id="ours").tracking_id == "ours"


def test_two_errors_are_tracked_apart() -> None:
    assert PGQueueError("a").tracking_id != PGQueueError("a").tracking_id


def test_the_tracking_id_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="pgqueue")
    error = errors.LockLostError("the lock on message 7 is lost")
    (record,) = caplog.records
    assert record.name == "pgqueue"
    assert error.tracking_id in record.getMessage()
    assert "LockLostError: the lock on message 7 is lost" in record.getMessage()
    assert vars(record)["tracking_id"] == error.tracking_id


@pytest.mark.parametrize("kind", SINGLE)
def test_an_error_survives_the_way_to_another_process(kind: type[PGQueueError]) -> None:
    error = kind("something happened", sqlstate="XX000")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (str(copy), copy.sqlstate, copy.tracking_id) == (str(error), "XX000", error.tracking_id)


PASSING: list[PGQueueError] = [
    errors.TransactionConflictError("again", sqlstate="40001"),
    errors.OperationTimeoutError("late"),
]
LASTING: list[PGQueueError] = [errors.QueueDisabledError("disabled"), errors.QueueDisabledError("still disabled")]


@pytest.mark.parametrize(
    ("failures", "is_transient", "sqlstate"),
    [(PASSING, True, None), (LASTING, False, "PQ004"), (PASSING + LASTING, False, None), (PASSING[:1], True, "40001")],
)
def test_failed_sends_are_a_group_that_may_pass_when_all_of_them_may(
    failures: list[PGQueueError], is_transient: bool, sqlstate: str | None
) -> None:
    error = errors.SendError("some failed", failures)
    assert isinstance(error, ExceptionGroup)
    assert error.exceptions == tuple(failures)
    assert (error.is_transient, error.sqlstate) == (is_transient, sqlstate)
    assert str(error).startswith("some failed (")
    assert str(error).endswith(f"[tracking id {error.tracking_id}]")


def test_failed_sends_are_found_by_class() -> None:
    some = errors.SendError("some failed", PASSING + LASTING).subgroup(errors.QueueDisabledError)
    assert isinstance(some, errors.SendError)
    assert (some.exceptions, some.sqlstate) == (tuple(LASTING), "PQ004")


def test_failed_sends_survive_the_way_to_another_process() -> None:
    error = errors.SendError("some failed", PASSING)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.tracking_id, copy.is_transient) == (str(error), error.tracking_id, True)
    assert [str(each) for each in copy.exceptions] == [str(each) for each in PASSING]


def test_a_verdict_of_the_work_keeps_its_reason_and_description() -> None:
    verdict = errors.DeadLetter("UnknownCustomer", "customer 7")
    assert (verdict.reason, verdict.description, str(verdict)) == (
        "UnknownCustomer",
        "customer 7",
        "UnknownCustomer: customer 7",
    )
    assert (errors.DeadLetter("Hopeless").description, str(errors.DeadLetter("Hopeless"))) == (None, "Hopeless")
    assert not isinstance(verdict, PGQueueError)


def test_a_verdict_survives_the_way_to_another_process() -> None:
    copy = pickle.loads(pickle.dumps(errors.DeadLetter("UnknownCustomer", "customer 7")))
    assert (copy.reason, copy.description) == ("UnknownCustomer", "customer 7")


@pytest.mark.parametrize(
    ("sqlstate", "kind"),
    [
        ("PQ001", errors.LockLostError),
        ("PQ002", errors.QueueNotFoundError),
        ("PQ003", errors.QueueAlreadyExistsError),
        ("PQ004", errors.QueueDisabledError),
        ("PQ005", errors.MessageSizeExceededError),
        ("PQ006", errors.MessageNotFoundError),
        ("PQ007", errors.InvalidArgumentError),
        ("40001", errors.TransactionConflictError),
        ("40P01", errors.TransactionConflictError),
        ("40000", errors.TransactionConflictError),
        ("40002", PGQueueError),
        ("40003", errors.ConnectionLostError),
        ("25006", errors.ReadOnlyError),
        ("25P02", errors.TransactionRequiredError),
        ("25P03", errors.ConnectionLostError),
        ("25P04", errors.ConnectionLostError),
        ("25001", None),
        ("53000", errors.OutOfResourcesError),
        ("53100", errors.OutOfResourcesError),
        ("53200", errors.OutOfResourcesError),
        ("53400", PGQueueError),
        ("55000", None),
        ("55006", None),
        ("57000", None),
        ("57P02", errors.ConnectionLostError),
        ("57P03", errors.ConnectionLostError),
        ("57P04", errors.ConnectionLostError),
        ("57P05", errors.ConnectionLostError),
        ("58000", None),
        ("58030", None),
        ("XX000", None),
        ("XX001", None),
        ("55P03", errors.TransactionConflictError),
        ("57014", errors.OperationTimeoutError),
        ("42501", errors.AccessDeniedError),
        ("28P01", errors.AccessDeniedError),
        ("28000", errors.AccessDeniedError),
        ("3F000", errors.SchemaVersionError),
        ("42883", errors.SchemaVersionError),
        ("42703", errors.SchemaVersionError),
        ("42P01", errors.SchemaVersionError),
        ("57P01", errors.ConnectionLostError),
        ("53300", errors.ConnectionLostError),
        ("08006", errors.ConnectionLostError),
        ("08001", errors.ConnectionLostError),
        ("23505", None),
        (None, None),
    ],
)
def test_an_sqlstate_has_its_class(sqlstate: str | None, kind: type[PGQueueError] | None) -> None:
    assert error_class(sqlstate) is kind


def test_the_private_sqlstates_are_those_of_the_table_in_the_sql_readme() -> None:
    rows = (line.strip("| \n").split("|") for line in SQL_PAGE.read_text().splitlines() if "`PQ" in line[:12])
    told = {cells[0].strip(" `"): cells[1] for cells in rows}
    private = {sqlstate: kind for sqlstate, kind in BY_SQLSTATE.items() if sqlstate.startswith("PQ")}
    assert told.keys() == private.keys()


def test_the_private_sqlstates_are_those_that_the_sql_functions_raise() -> None:
    functions = SQL_PAGE.parent / "functions"
    raised = {
        sqlstate
        for file in functions.rglob("*.sql")
        for sqlstate in re.findall(r"_refuse\(\s*'(PQ\d{3})'", file.read_text())
    }
    reserved = {"PQ006"}
    assert raised | reserved == {sqlstate for sqlstate in BY_SQLSTATE if sqlstate.startswith("PQ")}
