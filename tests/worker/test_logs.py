"""Log lines about a message identify it, in fields that a program can read."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import pgqueue
import pgqueue.aio
from pgqueue import DeadLetter
from pgqueue.errors import TransactionConflictError
from pgqueue.leases.renewals import Renewal
from pgqueue.model.holder import this_process
from pgqueue.worker.failures import Limit
from tests.patience import eventually
from tests.worker.scene import Running, Scene


def about(caplog: pytest.LogCaptureFixture, part: str) -> dict[str, Any]:
    """The fields of the log line with this part."""
    eventually(lambda: any(part in record.getMessage() for record in caplog.records), f"no log line contains {part!r}")
    record = next(record for record in caplog.records if part in record.getMessage())
    names = ("queue", "sequence_number", "sequence_numbers", "delivery_count", "tracking_id")
    return {name: getattr(record, name) for name in names if hasattr(record, name)}


@pytest.fixture
def no_renewal_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A renewal would notice first that a lock is lost. One is due as soon as the worker listens for lost locks."""
    monkeypatch.setattr(Renewal, "is_due", lambda *_: False)


@pytest.mark.parametrize(
    ("failure", "tracked"),
    [(ValueError("no"), False), (TransactionConflictError("again"), True)],
    ids=repr,
)
@pytest.mark.core
def test_a_handler_that_fails(
    scene: Scene, caplog: pytest.LogCaptureFixture, failure: Exception, tracked: bool
) -> None:
    async def handler(_: Any) -> None:
        raise failure

    (number,) = scene.send("a")
    with scene.working(handler):
        said = about(caplog, "the handler failed")
    tracking_id = getattr(failure, "tracking_id", None)
    assert bool(tracking_id) is tracked
    assert said == {"queue": "q", "sequence_number": number, "delivery_count": 1, "tracking_id": tracking_id}


def line_of(caplog: pytest.LogCaptureFixture, part: str) -> logging.LogRecord:
    about(caplog, part)
    return next(record for record in caplog.records if part in record.getMessage())


@pytest.mark.parametrize(
    ("failure", "why"),
    [
        (DeadLetter("Unpaid", "nothing was paid"), "Unpaid: nothing was paid"),
        (DeadLetter("Unpaid"), "Unpaid"),
        (KeyError("a"), "KeyError: 'a'"),
    ],
    ids=repr,
)
def test_a_message_that_is_dead_lettered(
    scene: Scene, caplog: pytest.LogCaptureFixture, failure: Exception, why: str
) -> None:
    async def handler(_: Any) -> None:
        raise failure

    (number,) = scene.send("a")
    with scene.working(handler, retry=pgqueue.RetryPolicy(dead_letter_on=(KeyError,))):
        line = line_of(caplog, "is dead-lettered")
    assert line.getMessage() == f"message {number} of q is dead-lettered at delivery 1: {why}"
    assert not line.exc_info


@dataclass
class Order:
    city: str


def test_a_body_that_does_not_fit_is_logged_without_its_values(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    async def handler(message: Any) -> None:
        raise AssertionError

    face: Any = pgqueue.aio if scene.face == "tasks" else pgqueue
    handler.__annotations__["message"] = face.ReceivedMessage[Order]
    (number,) = scene.send({"city": 4711})
    with scene.working(handler):
        line = line_of(caplog, "is dead-lettered")
    rule = "city: it is not a text"
    assert line.getMessage() == f"message {number} of q is dead-lettered at delivery 1: InvalidBody: {rule}"
    assert "4711" not in caplog.text


def test_a_message_without_a_handler_takes_one_line(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    app = pgqueue.Handlers()
    app.handler("q", subject="paid")(lambda message: None)
    (number,) = scene.send("a")
    face: Any = pgqueue.aio if scene.face == "tasks" else pgqueue
    running = Running(face.Worker(face.QueueClient(scene.database.dsn), app))
    line = line_of(caplog, "no handler of queue q")
    running.stop()
    assert line.getMessage().startswith(
        f"message {number} of q failed at delivery 1 of 10, and will be redelivered in "
    )
    assert not line.exc_info


@pytest.mark.parametrize(
    ("max_attempts", "which"), [(None, "1 of 10"), (2, "1 of 2 (max_attempts)"), (20, "1 of 10")], ids=str
)
def test_a_delivery_that_fails_is_counted_by_the_lower_limit(
    scene: Scene, caplog: pytest.LogCaptureFixture, max_attempts: int | None, which: str
) -> None:
    async def handler(_: Any) -> None:
        raise ValueError("no")

    scene.send("a")
    with scene.working(handler, retry=pgqueue.RetryPolicy(max_attempts=max_attempts)):
        line = line_of(caplog, "the handler failed")
    assert f", delivery {which}: it will be redelivered in " in line.getMessage()


def test_a_delivery_whose_limit_is_unknown_is_counted_without_one() -> None:
    assert Limit().place(3) == "3"


def test_the_last_delivery_that_fails(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.client.update_queue("q", max_delivery_count=1)

    async def handler(_: Any) -> None:
        raise ValueError("no")

    (number,) = scene.send("a")
    with scene.working(handler):
        line = line_of(caplog, "the handler failed")
    assert line.getMessage() == (
        f"the handler failed on message {number} of q, delivery 1 of 1: it is dead-lettered as MaxDeliveryCountExceeded"
    )
    assert line.exc_info


def test_the_application_name_of_a_connection_names_its_worker_and_queue(scene: Scene) -> None:
    names = "select distinct application_name from pg_stat_activity where datname = current_database()"

    async def handler(_: Any) -> None: ...

    with scene.working(handler):
        eventually(lambda: (f"pgqueue worker {this_process()} q"[:63],) in scene.rows(names))


@pytest.mark.usefixtures("no_renewal_comes_first")
def test_a_message_that_was_handled_and_is_lost(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    async def handler(message: Any) -> None:
        scene.run("update pgqueue.message set lock_token = gen_random_uuid()")

    (number,) = scene.send("a")
    with scene.working(handler):
        said = about(caplog, "was handled, but is lost")
    assert said.pop("tracking_id")
    assert said == {"queue": "q", "sequence_number": number, "delivery_count": 1}


def test_a_lock_that_is_not_renewed(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise ValueError("the callback's own")

    (number,) = scene.send("a")
    (received,) = scene.queue.receive()
    scene.run("update pgqueue.message set lock_token = gen_random_uuid()")
    with pgqueue.AutoLockRenewer(on_lock_renew_failure=fail) as renewer:
        renewer.register(received)
        for line in ("was not renewed", "on_lock_renew_failure raised"):
            said = about(caplog, line)
            assert said.pop("tracking_id")
            assert said == {"queue": "q", "sequence_number": number, "delivery_count": 1}


def test_a_shared_transaction_that_is_retried_one_by_one_is_logged(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    async def handler(message: Any, tx: Any) -> None:
        calls.append(message.body)
        if len(calls) == 1:
            raise psycopg.errors.SerializationFailure("conflict")

    numbers = scene.send(1, 2, 3)
    retry = pgqueue.RetryPolicy(transaction_attempts=1)
    options: Any = {"transaction": "psycopg", "transaction_batch": 3, "concurrency": 1, "retry": retry}
    with scene.working(handler, **options):
        said = about(caplog, "retrying them one by one")
    assert said == {"queue": "q", "sequence_numbers": numbers, "tracking_id": None}


@pytest.mark.usefixtures("no_renewal_comes_first")
def test_a_message_that_cannot_be_settled(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pgqueue")

    async def handler(message: Any) -> None:
        scene.run("update pgqueue.message set lock_token = gen_random_uuid()")
        raise ValueError("no")

    (number,) = scene.send("a")
    with scene.working(handler, grace_period=timedelta(seconds=5)):
        said = about(caplog, "was settled elsewhere")
    assert said.pop("tracking_id")
    assert said == {"queue": "q", "sequence_number": number, "delivery_count": 1}


def test_a_message_that_cannot_be_abandoned(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    def work(_: Any) -> None:
        raise ValueError("no")

    (number,) = scene.send("a")
    (received,) = scene.queue.receive()
    received.context.on_abandon(lambda: scene.run("update pgqueue.message set lock_token = gen_random_uuid()"))
    with pytest.raises(ValueError, match="no"):
        pgqueue.process(received, work)
    said = about(caplog, "could not be abandoned")
    assert said.pop("tracking_id")
    assert said == {"queue": "q", "sequence_number": number, "delivery_count": 1}
