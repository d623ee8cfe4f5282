"""The receipts of recipients, and the answer to them, against the protocol as it is written down, by hand."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest

import pgqueue.aio.notifications
from pgqueue import notifications
from pgqueue.errors import InvalidArgumentError
from pgqueue.notifications import AGGREGATION, Notification, QueueNotification, ReceiptStatus

OK, FAIL, ABORT = ReceiptStatus.OK, ReceiptStatus.FAIL, ReceiptStatus.ABORT
FINISHED, NOT_PROCESSED, PENDING = ReceiptStatus.FINISHED, ReceiptStatus.NOT_PROCESSED, ReceiptStatus.PENDING
RAISES = "raises"


class Lamp(Notification):
    """A notification to send."""


class Telling:
    """A transmitter within this process, of one face, with recipients of one kind; spoken to synchronously."""

    def __init__(self, kind: str) -> None:
        self._is_async, self._is_coroutine = kind != "sync", kind == "coroutines"
        self._transmitter: Any = (pgqueue.aio.notifications if self._is_async else notifications).Transmitter()

    def register(self, recipient: Callable[..., Any]) -> Any:
        """Returns what is registered: the function, or a coroutine function around it."""
        if not self._is_coroutine:
            return self._transmitter.register(recipient)

        @functools.wraps(recipient)
        async def awaited(*given: Any) -> Any:
            await asyncio.sleep(0)
            return recipient(*given)

        return self._transmitter.register(awaited)

    def deregister(self, recipient: Any) -> None:
        self._transmitter.deregister(recipient)

    def notify_all(self, notification: Any, **options: Any) -> ReceiptStatus:
        told = self._transmitter.notify_all(notification, **options)
        answer: ReceiptStatus = asyncio.run(told) if self._is_async else told
        return answer

    def those_who_answer(self, answers: Sequence[Any]) -> list[Any]:
        """Registers a recipient for each answer; the list fills with the answers that were given."""
        given: list[Any] = []

        def answer(with_this: Any, _: Any) -> Any:
            given.append(with_this)
            if with_this == RAISES:
                raise ZeroDivisionError("no such lamp")
            return with_this

        for each in answers:
            recipient = functools.partial(answer, each)
            functools.update_wrapper(recipient, answer)
            del recipient.__wrapped__  # type: ignore[attr-defined]
            self.register(recipient)
        return given


@pytest.fixture(params=["sync", "functions", "coroutines"])
def telling(request: pytest.FixtureRequest) -> Telling:
    return Telling(request.param)


@pytest.mark.parametrize(
    ("receipt", "answer"),
    [
        (None, NOT_PROCESSED),
        (NOT_PROCESSED, NOT_PROCESSED),
        (OK, OK),
        (PENDING, OK),
        (FAIL, FAIL),
        (RAISES, FAIL),
        (ABORT, FAIL),
        (FINISHED, OK),
    ],
)
@pytest.mark.core
def test_the_receipt_of_one_recipient_has_its_answer(telling: Telling, receipt: Any, answer: ReceiptStatus) -> None:
    telling.those_who_answer([receipt])
    assert telling.notify_all(Lamp()) is answer


def test_a_notification_without_recipients_is_not_processed(telling: Telling) -> None:
    assert telling.notify_all(Lamp()) is NOT_PROCESSED


def told_and_answered(receipts: Sequence[Any]) -> tuple[list[Any], ReceiptStatus]:
    """The rules of the protocol: the recipients that are notified, and the answer."""
    for index, receipt in enumerate(receipts):
        if receipt is FINISHED:
            return list(receipts[: index + 1]), OK
        if receipt is ABORT:
            return list(receipts[: index + 1]), FAIL
    if FAIL in receipts or RAISES in receipts:
        return list(receipts), FAIL
    if OK in receipts or PENDING in receipts:
        return list(receipts), OK
    return list(receipts), NOT_PROCESSED


@pytest.mark.parametrize("count", [2, 3])
def test_the_receipts_of_several_recipients_are_answered_by_the_rules(count: int) -> None:
    for kind in ("sync", "functions"):
        for receipts in product([*ReceiptStatus, RAISES], repeat=count):
            telling = Telling(kind)
            told = telling.those_who_answer(receipts)
            answer = telling.notify_all(Lamp())
            assert (told, answer) == told_and_answered(receipts), receipts


@pytest.mark.parametrize("later", [OK, PENDING, NOT_PROCESSED, None])
@pytest.mark.parametrize("failure", [FAIL, RAISES])
def test_nothing_that_comes_later_hides_a_failure(telling: Telling, failure: Any, later: Any) -> None:
    told = telling.those_who_answer([failure, later, later])
    assert telling.notify_all(Lamp()) is FAIL
    assert told == [failure, later, later]


def test_the_table_agrees_with_the_protocol_for_every_receipt() -> None:
    assert set(AGGREGATION) == set(ReceiptStatus)
    assert {receipt for receipt, rule in AGGREGATION.items() if rule.stops} == {FINISHED, ABORT}
    assert {receipt for receipt, rule in AGGREGATION.items() if rule.answer is OK} == {OK, FINISHED, PENDING}
    weights = [rule.weight for rule in AGGREGATION.values()]
    assert len(set(weights)) == len(weights), "no two weigh the same, so the order of recipients does not matter"


def test_the_error_of_a_recipient_is_kept_in_the_log(telling: Telling, caplog: pytest.LogCaptureFixture) -> None:
    telling.those_who_answer([RAISES])
    with caplog.at_level(logging.WARNING, "pgqueue"):
        telling.notify_all(Lamp())
    (record,) = caplog.records
    assert "answer failed on Lamp" in record.message
    assert record.exc_info
    assert isinstance(record.exc_info[1], ZeroDivisionError)


def test_the_errors_of_recipients_reach_the_caller(telling: Telling) -> None:
    errors: list[Exception] = []
    told = telling.those_who_answer([RAISES, OK, RAISES])
    assert telling.notify_all(Lamp(), errors=errors) is FAIL
    assert [str(error) for error in errors] == ["no such lamp", "no such lamp"]
    assert told == [RAISES, OK, RAISES]
    with pytest.raises(ZeroDivisionError, match="no such lamp"):
        raise errors[0]


def completing(receipt: Any) -> Callable[[Any], Any]:
    def recipient(notification: Any) -> Any:
        notification.complete = True
        if receipt == RAISES:
            raise ZeroDivisionError("done, and then this")
        return receipt

    return recipient


@pytest.mark.parametrize("receipt", [*ReceiptStatus, None, RAISES])
def test_no_further_recipient_is_notified_once_a_notification_is_complete(telling: Telling, receipt: Any) -> None:
    errors: list[Exception] = []
    notification = QueueNotification()
    before = telling.those_who_answer([FAIL])
    telling.register(completing(receipt))
    after = telling.those_who_answer([FAIL])
    assert telling.notify_all(notification, errors=errors) is OK
    assert (before, after) == ([FAIL], [])
    assert len(errors) == (receipt == RAISES)
    assert telling.notify_all(notification) is OK
    assert (before, after) == ([FAIL], []), "a complete one is not sent again"


class Ready(Notification):
    """A notification that knows when it is ready, without a queue."""

    def __init__(self, ready: Any, *, timed_out: bool = False) -> None:
        self.ready, self.timed_out = ready, timed_out

    @property
    def is_ready_to_send(self) -> bool:
        return bool(1 / self.ready if isinstance(self.ready, int) else self.ready)


def test_an_unready_notification_is_not_sent_and_not_processed(telling: Telling) -> None:
    told = telling.those_who_answer([OK])
    lamp = Ready("")
    assert telling.notify_all(lamp) is NOT_PROCESSED
    assert told == []
    lamp.ready = "yes"
    assert telling.notify_all(lamp) is OK
    assert telling.notify_all(Ready("", timed_out=True)) is OK, "it is sent a last time"
    assert told == [OK, OK]


def test_a_notification_whose_readiness_raises_has_failed(telling: Telling) -> None:
    errors: list[Exception] = []
    told = telling.those_who_answer([OK])
    assert telling.notify_all(Ready(0), errors=errors) is FAIL
    assert told == []
    assert [type(error) for error in errors] == [ZeroDivisionError]


@pytest.mark.parametrize("nonsense", ["OK", True, 1])
def test_an_answer_that_is_no_receipt_is_a_failure(telling: Telling, nonsense: Any) -> None:
    telling.register(lambda _: nonsense)
    assert telling.notify_all(Lamp()) is FAIL


def test_an_interrupt_is_no_failure_of_a_recipient(telling: Telling) -> None:
    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    telling.register(interrupted)
    with pytest.raises(KeyboardInterrupt):
        telling.notify_all(Lamp())


def named(names: list[str], name: str, then: Callable[[], object] = lambda: None) -> Callable[[Any], ReceiptStatus]:
    def recipient(_: Any) -> ReceiptStatus:
        names.append(name)
        then()
        return OK

    return recipient


def test_recipients_are_notified_in_the_order_of_their_registration(telling: Telling) -> None:
    told: list[str] = []
    registered = {name: telling.register(named(told, name)) for name in ("c", "a", "b")}
    telling.notify_all(Lamp())
    assert told == ["c", "a", "b"]
    telling.deregister(registered["c"])
    telling.register(named(told, "c"))
    told.clear()
    telling.notify_all(Lamp())
    assert told == ["a", "b", "c"]


def test_a_recipient_that_deregisters_itself_is_notified_no_more_and_the_others_are(telling: Telling) -> None:
    told: list[str] = []
    once = telling.register(named(told, "once", lambda: telling.deregister(once)))
    telling.register(named(told, "always"))
    for _ in range(2):
        assert telling.notify_all(Lamp()) is OK
    assert told == ["once", "always", "always"]


def test_a_recipient_deregistered_before_its_turn_is_not_notified(telling: Telling) -> None:
    told: list[str] = []
    telling.register(named(told, "first", lambda: telling.deregister(late)))
    late = telling.register(named(told, "late"))
    telling.register(named(told, "last"))
    telling.notify_all(Lamp())
    assert told == ["first", "last"]


def test_a_recipient_deregistered_after_its_turn_was_notified(telling: Telling) -> None:
    told: list[str] = []
    early = telling.register(named(told, "early"))
    telling.register(named(told, "last", lambda: telling.deregister(early)))
    telling.notify_all(Lamp())
    assert told == ["early", "last"]
    with pytest.raises(InvalidArgumentError):
        telling.deregister(early)


def test_a_recipient_registered_meanwhile_is_notified_from_the_next_round_on(telling: Telling) -> None:
    told: list[str] = []
    new = named(told, "new")
    first = telling.register(named(told, "first", lambda: telling.register(new)))
    telling.notify_all(Lamp())
    assert told == ["first"]
    telling.deregister(first)
    telling.notify_all(Lamp())
    assert told == ["first", "new"]


def test_a_recipient_registered_again_meanwhile_waits_for_the_next_round(telling: Telling) -> None:
    told: list[str] = []

    def move() -> None:
        telling.deregister(other)
        telling.register(other)

    first = telling.register(named(told, "first", move))
    other = telling.register(named(told, "other"))
    telling.notify_all(Lamp())
    assert told == ["first"]
    telling.deregister(first)


def test_a_round_within_a_round() -> None:
    told: list[str] = []
    telling = Telling("sync")

    def again() -> None:
        telling.deregister(once)
        telling.notify_all(Lamp())

    once = telling.register(named(told, "outer", again))
    telling.register(named(told, "other"))
    telling.notify_all(Lamp())
    assert told == ["outer", "other", "other"]


class Kitchen:
    """A recipient, and an object with several methods to register."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def receive(self, notification: Any) -> ReceiptStatus:
        self.told.append(notification)
        return OK

    def warm(self, notification: Any) -> ReceiptStatus:
        return self.receive(notification)


def test_an_object_is_notified_by_its_method_receive(telling: Telling) -> None:
    kitchen = Kitchen()
    telling._transmitter.register(kitchen)
    lamp = Lamp()
    assert telling.notify_all(lamp) is OK
    assert kitchen.told == [lamp]


def test_a_method_of_an_object_is_one_recipient_however_often_it_is_asked_for(telling: Telling) -> None:
    kitchen, other = Kitchen(), Kitchen()
    telling._transmitter.register(kitchen.warm)
    telling._transmitter.register(other.warm)
    with pytest.raises(InvalidArgumentError, match="registered already"):
        telling._transmitter.register(kitchen.warm)
    telling._transmitter.deregister(kitchen.warm)
    telling.notify_all(Lamp())
    assert (len(kitchen.told), len(other.told)) == (0, 1)


def test_recipients_registered_twice_or_not_at_all_are_refused(telling: Telling) -> None:
    known = telling.register(named([], "known"))
    with pytest.raises(InvalidArgumentError, match="registered already"):
        telling._transmitter.register(known)
    with pytest.raises(InvalidArgumentError, match="not registered"):
        telling.deregister(named([], "unknown"))
    with pytest.raises(InvalidArgumentError, match="callable"):
        telling._transmitter.register("a string")


def test_register_decorates(telling: Telling) -> None:
    @telling._transmitter.register  # type: ignore[untyped-decorator]
    def recipient(_: Lamp) -> ReceiptStatus:
        return OK

    assert callable(recipient)
    assert telling.notify_all(Lamp()) is OK


def test_a_recipient_with_a_second_argument_gets_the_transaction(telling: Telling) -> None:
    given: list[Any] = []

    def recipient(_: Any, transaction: Any) -> ReceiptStatus:
        given.append(transaction)
        return OK

    telling.register(recipient)
    telling.notify_all(Lamp(), transaction="a transaction")
    telling.notify_all(Lamp())
    assert given == ["a transaction", None]


@pytest.mark.parametrize(
    ("recipient", "given"),
    [
        (lambda notification, transaction: (transaction, OK)[1], True),
        (lambda notification, shelf=7: {7: OK}[shelf], False),
        (lambda *given: {1: OK}[len(given)], False),
        (lambda notification, *, shelf=7: {7: OK}[shelf], False),
        (str, False),
    ],
    ids=["two", "a default", "any number", "by name", "a type"],
)
def test_only_a_recipient_that_requires_a_transaction_gets_one(recipient: Callable[..., Any], given: bool) -> None:
    telling = Telling("sync")
    telling.register(recipient)
    assert telling._transmitter._recipients.take_transactions is given
    assert telling.notify_all(Lamp()) is (FAIL if recipient is str else OK)


@pytest.mark.parametrize("recipient", [lambda: OK, lambda a, b, c: OK, lambda a, *, b: OK])
def test_a_recipient_that_cannot_take_a_notification_is_refused(recipient: Callable[..., Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="must take the notification"):
        Telling("sync").register(recipient)


async def coroutine_function(_: Any) -> ReceiptStatus:
    return OK


class Asynchronous:
    async def receive(self, _: Any) -> ReceiptStatus:
        return OK


class AsynchronousCall:
    async def __call__(self, _: Any) -> ReceiptStatus:
        return OK


@pytest.mark.parametrize(
    "recipient",
    [coroutine_function, Asynchronous(), AsynchronousCall(), functools.partial(coroutine_function)],
    ids=["function", "receive", "call", "partial"],
)
def test_a_coroutine_function_is_for_the_asynchronous_transmitter(recipient: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"pgqueue\.aio\.notifications"):
        notifications.Transmitter().register(recipient)
    telling = Telling("functions")
    telling._transmitter.register(recipient)
    assert telling.notify_all(Lamp()) is OK
