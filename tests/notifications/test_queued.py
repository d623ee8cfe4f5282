"""Notifications in a queue: what becomes of them, what they remember, when they are sent again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from pgqueue import Message
from pgqueue.encryption import EncryptedBodies
from pgqueue.errors import InvalidArgumentError, QueueNotFoundError
from pgqueue.model.cipher import is_encrypted
from pgqueue.notifications import REMOVAL, Fate, NotificationTypes, Pace, QueueNotification, ReceiptStatus
from pgqueue.notifications.receipts import described
from tests.contract.world import SECOND
from tests.notifications.place import (
    ABORT,
    CONTENT_TYPE,
    DAY,
    FAIL,
    FINISHED,
    MINUTE,
    NOT_PROCESSED,
    OK,
    PENDING,
    Answered,
    Order,
    Patient,
    Place,
    processed,
    types,
)

REMOVED, SENT_AGAIN, DEAD_LETTERED = Fate.REMOVED, Fate.SENT_AGAIN, Fate.DEAD_LETTERED

#: The table of the protocol, by hand: the receipt, and the fate of a notification that is in time, that a recipient has
#: timed out early, and that has expired.
TABLE = [
    (OK, REMOVED, REMOVED, REMOVED),
    (FINISHED, REMOVED, REMOVED, REMOVED),
    (ABORT, SENT_AGAIN, DEAD_LETTERED, DEAD_LETTERED),
    (FAIL, SENT_AGAIN, DEAD_LETTERED, DEAD_LETTERED),
    (PENDING, SENT_AGAIN, SENT_AGAIN, DEAD_LETTERED),
    (NOT_PROCESSED, SENT_AGAIN, SENT_AGAIN, DEAD_LETTERED),
]


def test_the_table_is_that_of_the_protocol() -> None:
    assert {receipt: tuple(fates) for receipt, *fates in TABLE} == REMOVAL


def fate(place: Place) -> Fate:
    """The end of the one notification of a test."""
    if place.dead():
        assert place.found() == []
        assert place.buried().dead_letter_reason == "TTLExpiredException"
        return DEAD_LETTERED
    return SENT_AGAIN if place.found() else REMOVED


@pytest.mark.parametrize("late", [False, True], ids=["in time", "timed out"])
@pytest.mark.parametrize(("receipt", "in_time", "given_up", "too_late"), TABLE)
@pytest.mark.core
def test_the_receipt_of_one_recipient_decides(
    place: Place, receipt: ReceiptStatus, in_time: Fate, given_up: Fate, too_late: Fate, late: bool
) -> None:
    transmitter, seen = place.told(receipt, time_to_live=DAY)
    assert transmitter.notify_all(Order()) is OK
    assert seen == []
    if late:
        place.move_clock(DAY + SECOND)
    transmitter.process_pending()
    assert len(seen) == 1, "notified once more when it has timed out"
    assert seen[0].timed_out is late
    assert fate(place) is (too_late if late else in_time)


@pytest.mark.parametrize("late", [False, True], ids=["in time", "timed out"])
def test_a_recipient_that_raises_has_failed_and_its_error_is_kept(place: Place, late: bool) -> None:
    def broken(_: Any) -> None:
        raise ZeroDivisionError("no such account")

    transmitter, _ = place.told(broken, time_to_live=DAY)
    transmitter.notify_all(Order())
    if late:
        place.move_clock(DAY + SECOND)
    transmitter.process_pending()
    assert fate(place) is (DEAD_LETTERED if late else SENT_AGAIN)
    if late:
        description = place.buried().dead_letter_error_description
        assert description == "the last receipt was FAIL: ZeroDivisionError: no such account"


@pytest.mark.parametrize("late", [False, True], ids=["in time", "timed out"])
def test_without_recipients_it_stays_until_it_has_timed_out(place: Place, late: bool) -> None:
    transmitter = place.transmitter(time_to_live=DAY)
    transmitter.notify_all(Order())
    if late:
        place.move_clock(DAY + SECOND)
    assert transmitter.process_pending() == (processed(dead_lettered=1) if late else processed(kept=1))
    assert fate(place) is (DEAD_LETTERED if late else SENT_AGAIN)


def decided(receipts: Sequence[ReceiptStatus]) -> ReceiptStatus:
    """The aggregate of several, by the rules: who ends the round decides; a failure stays one; pending is not over."""
    for receipt in receipts:
        if receipt in (FINISHED, ABORT):
            return receipt
    for heaviest in (FAIL, PENDING, OK):
        if heaviest in receipts:
            return heaviest
    return NOT_PROCESSED


@pytest.mark.parametrize("late", [False, True], ids=["in time", "timed out"])
def test_the_receipts_of_three_recipients_decide_by_the_table(place: Place, late: bool) -> None:
    rows = {receipt: (in_time, too_late) for receipt, in_time, _, too_late in TABLE}
    said = list(product(ReceiptStatus, repeat=3))
    transmitter = place.transmitter(time_to_live=DAY)
    for index in range(3):
        transmitter.register(lambda notification, index=index: ReceiptStatus(notification.receipts[index]))
    with begun(place) as transaction:
        for receipts in said:
            transmitter.notify_all(Answered(list(map(str, receipts))), transaction=transaction.handle)
        transaction.commit()
    if late:
        place.move_clock(DAY + SECOND)
    transmitter.process_pending()
    left = {tuple(message.body["data"]["receipts"]) for message in place.found()}
    dead = {tuple(message.body["data"]["receipts"]) for message in place.dead()}
    for receipts in said:
        found = SENT_AGAIN if receipts in left else DEAD_LETTERED if receipts in dead else REMOVED
        assert found is rows[decided(receipts)][late], receipts


def test_a_later_ok_hides_no_failure(place: Place) -> None:
    transmitter = place.transmitter()
    for answer in (FAIL, OK, PENDING):
        transmitter.register(lambda _, answer=answer, /: answer)
    transmitter.notify_all(Order())
    assert transmitter.process_pending() == processed(kept=1)


def test_a_recipient_may_deregister_itself_and_others_while_it_is_notified(place: Place) -> None:
    transmitter, told = place.transmitter(), []

    def once(_: Any) -> ReceiptStatus:
        told.append("once")
        transmitter_itself.deregister(once)
        transmitter_itself.deregister(late)
        transmitter_itself.register(new)
        return PENDING

    def late(_: Any) -> ReceiptStatus:
        told.append("late")
        return FAIL

    def new(_: Any) -> ReceiptStatus:
        told.append("new")
        return OK

    transmitter_itself = getattr(transmitter, "_meaning", transmitter)
    transmitter.register(once)
    transmitter.register(late)
    transmitter.notify_all(Order())
    assert transmitter.process_pending() == processed(kept=1)
    place.move_clock(MINUTE)
    assert transmitter.process_pending() == processed(removed=1)
    assert told == ["once", "new"]


@pytest.mark.core
def test_it_is_sent_if_and_only_if_the_caller_commits(place: Place) -> None:
    transmitter, seen = place.told(OK)
    for commits in (False, True):
        with begun(place) as transaction:
            assert transmitter.notify_all(Order(), transaction=transaction.handle) is OK
            (transaction.commit if commits else transaction.rollback)()
        assert transmitter.process_pending() == processed(removed=int(commits))
    assert len(seen) == 1


@contextmanager
def begun(place: Place) -> Iterator[Any]:
    """A transaction of the caller's."""
    transaction = place.sources.transaction("connection")
    try:
        transaction.begin()
        yield transaction
    finally:
        transaction.close()


def test_a_sent_message_has_the_subject_and_content_type_of_its_notification(place: Place) -> None:
    place.transmitter().notify_all(Order(9))
    (message,) = place.found()
    assert (message.subject, message.content_type) == ("order", CONTENT_TYPE)
    assert message.body["data"] == {"number": 9}


def test_another_transmitter_finds_the_state_of_the_last_round(place: Place) -> None:
    def start(order: Any) -> ReceiptStatus:
        assert (order.state, order.attempts, order.complete) == (None, 0, False)
        order.state = {"operation": 4711}
        return PENDING

    first, _ = place.told(start)
    first.notify_all(Order())
    assert first.process_pending() == processed(kept=1)
    assert (place.kept().state, place.kept().attempts) == ({"operation": 4711}, 1)

    def look(order: Any) -> ReceiptStatus:
        assert (order.state, order.attempts) == ({"operation": 4711}, 1)
        order.state["looked"] = True
        return PENDING

    def finish(order: Any) -> ReceiptStatus:
        assert order.state == {"operation": 4711, "looked": True}
        order.complete = True
        return PENDING

    second, seen = place.told(look, finish)
    place.move_clock(MINUTE)
    assert second.process_pending() == processed(kept=1)
    place.move_clock(2 * MINUTE)
    assert second.process_pending() == processed(removed=1), "complete decides, whatever was answered"
    assert [order.number for order in seen] == [7, 7]
    assert seen[0].created_at == seen[1].created_at


def test_the_state_is_kept_after_every_outcome_of_a_round(place: Place) -> None:
    def note(answer: Any) -> Any:
        def recipient(order: Any) -> Any:
            order.state = [*(order.state or []), str(answer)]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return recipient

    answers = [FAIL, ABORT, PENDING, NOT_PROCESSED, ZeroDivisionError("oops")]
    transmitter, _ = place.told(*map(note, answers))
    transmitter.notify_all(Order())
    for count in range(1, len(answers) + 1):
        transmitter.process_pending()
        assert place.kept().state == [str(answer) for answer in answers[:count]]
        place.move_clock(DAY / 24)


def test_a_complete_notification_is_never_sent_again(place: Place) -> None:
    transmitter, seen = place.told(FAIL)
    done = Order()
    done.complete = True
    transmitter.notify_all(done)
    assert transmitter.process_pending() == processed(removed=1)
    assert seen == []


@pytest.mark.parametrize("answer", [PENDING, FAIL, NOT_PROCESSED])
def test_no_further_recipient_is_notified_in_the_round_that_completes_a_notification(
    place: Place, answer: ReceiptStatus
) -> None:
    def complete(order: Any) -> ReceiptStatus:
        order.complete = True
        return answer

    transmitter, _ = place.told(complete)
    told: list[Any] = []
    transmitter.register(place.recipient(told.append))
    transmitter.notify_all(Order())
    assert transmitter.process_pending() == processed(removed=1)
    assert told == []
    assert fate(place) is REMOVED


def test_a_complete_one_that_timed_out_is_no_dead_letter(place: Place) -> None:
    def complete(order: Any) -> ReceiptStatus:
        order.complete = True
        return FAIL

    transmitter, _ = place.told(complete, time_to_live=DAY)
    transmitter.notify_all(Order())
    place.move_clock(2 * DAY)
    assert transmitter.process_pending() == processed(removed=1)
    assert fate(place) is REMOVED


def test_it_is_paced_exponentially_and_without_counting_deliveries(place: Place) -> None:
    place.client.update_queue(place.name, max_delivery_count=2)
    transmitter, seen = place.told(PENDING, pace=Pace(MINUTE, 2.0, 4 * MINUTE), time_to_live=None)
    transmitter.notify_all(Order())
    for rest in (1, 2, 4, 4, 4):
        assert transmitter.process_pending() == processed(kept=1)
        assert transmitter.process_pending() == processed(), "it rests"
        place.move_clock(rest * MINUTE - 10 * SECOND)
        assert transmitter.process_pending() == processed()
        place.move_clock(10 * SECOND)
    assert transmitter.process_pending() == processed(kept=1)
    assert len(seen) == 6
    kept = place.kept()
    assert (kept.attempts, kept.delivery_count) == (6, 0)


def test_an_unready_notification_is_not_sent_and_not_polled_in_a_loop(place: Place) -> None:
    transmitter, seen = place.told(OK, pace=Pace(MINUTE, 2.0, 8 * MINUTE), time_to_live=None)
    transmitter.notify_all(Patient("p"))
    Patient.asked, Patient.ready = 0, False
    for _ in range(32):
        transmitter.process_pending()
        place.move_clock(MINUTE)
    assert seen == []
    assert 4 <= Patient.asked <= 8, "at 0, 1, 3, 7, 15, 23, 31 minutes or so"
    assert (place.kept().attempts, place.kept().delivery_count) == (0, 0)
    Patient.ready = True
    place.move_clock(8 * MINUTE)
    assert transmitter.process_pending() == processed(removed=1)
    assert len(seen) == 1


def test_a_notification_that_is_never_ready_is_sent_a_last_time_when_it_has_timed_out(place: Place) -> None:
    transmitter, seen = place.told(PENDING, time_to_live=10 * MINUTE)
    transmitter.notify_all(Patient("late"))
    Patient.ready = False
    transmitter.process_pending()
    place.move_clock(10 * MINUTE + SECOND)
    assert transmitter.process_pending() == processed(dead_lettered=1)
    assert [with_timeouts.timed_out for with_timeouts in seen] == [True]


def test_a_readiness_that_raises_is_a_failure_that_stays(place: Place) -> None:
    here = NotificationTypes()

    @here.register("broken")
    @dataclass
    class Broken(QueueNotification):
        @property
        def is_ready_to_send(self) -> bool:
            raise ZeroDivisionError("who knows")

    transmitter, seen = place.told(OK, of=here, time_to_live=DAY)
    transmitter.notify_all(Broken())
    assert transmitter.process_pending() == processed(kept=1)
    place.move_clock(DAY + SECOND)
    assert transmitter.process_pending() == processed(removed=1), "one that has timed out is not asked"
    assert len(seen) == 1


def test_a_recipient_may_give_up_before_its_time(place: Place) -> None:
    def give_up(order: Any) -> ReceiptStatus:
        assert not order.timed_out
        order.timed_out = True
        return FAIL

    transmitter, _ = place.told(give_up)
    transmitter.notify_all(Order())
    assert transmitter.process_pending() == processed(dead_lettered=1)
    assert fate(place) is DEAD_LETTERED


@pytest.mark.parametrize("with_transaction", [False, True], ids=["alone", "with a transaction"])
@pytest.mark.parametrize(("receipt", "in_time", "given_up", "too_late"), TABLE)
def test_a_notification_that_was_timed_out_early_stays_until_it_fails_or_expires(
    place: Place, receipt: ReceiptStatus, in_time: Fate, given_up: Fate, too_late: Fate, with_transaction: bool
) -> None:
    def give_up(order: Any) -> ReceiptStatus:
        order.timed_out = True
        return receipt

    transmitter, seen = place.told(give_up, receipt, time_to_live=DAY)
    if with_transaction:
        transmitter.register(place.recipient(lambda order, transaction: None))
    transmitter.notify_all(Order())
    transmitter.process_pending()
    assert fate(place) is given_up
    if given_up is SENT_AGAIN:
        place.move_clock(MINUTE)
        transmitter.process_pending()
        assert [order.timed_out for order in seen] == [True, True], "later rounds know that it was timed out"
        assert fate(place) is SENT_AGAIN
        place.move_clock(DAY)
        transmitter.process_pending()
        assert fate(place) is too_late


def test_a_failure_after_an_early_time_out_is_the_last(place: Place) -> None:
    def give_up(order: Any) -> ReceiptStatus:
        order.timed_out = True
        return PENDING

    transmitter, seen = place.told(give_up, FAIL, OK, time_to_live=DAY)
    transmitter.notify_all(Order())
    assert transmitter.process_pending() == processed(kept=1)
    place.move_clock(MINUTE)
    assert transmitter.process_pending() == processed(dead_lettered=1)
    place.queue.dead_letters.resubmit()
    assert transmitter.process_pending() == processed(removed=1)
    assert [order.timed_out for order in seen] == [True, True, False], "a resubmitted one is in time again"


def test_is_complete_can_be_set_as_complete_can(place: Place) -> None:
    def finish(order: Any) -> ReceiptStatus:
        order.is_complete = True
        return PENDING

    transmitter, seen = place.told(finish)
    transmitter.notify_all(Order())
    assert transmitter.process_pending() == processed(removed=1)
    assert (seen[0].complete, seen[0].is_complete) == (True, True)


@pytest.mark.parametrize("with_transaction", [False, True], ids=["alone", "with a transaction"])
@pytest.mark.parametrize("receipt", [PENDING, FAIL])
def test_fields_that_a_recipient_changes_survive_the_round(
    place: Place, receipt: ReceiptStatus, with_transaction: bool
) -> None:
    def change(answered: Any) -> ReceiptStatus:
        answered.receipts = [*answered.receipts, "asked"]
        return receipt

    def change_in_place(answered: Any) -> ReceiptStatus:
        answered.receipts.append("answered")
        return receipt

    transmitter, seen = place.told(change, change_in_place, OK, time_to_live=DAY)
    if with_transaction:
        transmitter.register(place.recipient(lambda answered, transaction: None))
    transmitter.notify_all(Answered(["new"]))
    for _ in range(3):
        transmitter.process_pending()
        place.move_clock(3 * MINUTE)
    assert fate(place) is REMOVED
    assert seen[-1].receipts == ["new", "asked", "answered"]


def test_an_unchanged_notification_of_an_older_version_stays_of_that_version(place: Place) -> None:
    newer = NotificationTypes()

    @newer.register("order", version=2)
    @dataclass
    class Ordered(QueueNotification):
        number: int
        customer: str

    newer.upgrade("order", from_version=1)(lambda data: {**data, "customer": "unknown"})

    def name(order: Any) -> ReceiptStatus:
        order.customer = "Ada"
        return PENDING

    place.transmitter().notify_all(Order(5))
    transmitter, _ = place.told(PENDING, name, of=newer)
    versions = []
    for _ in range(2):
        transmitter.process_pending()
        (message,) = place.found()
        versions.append((message.body["version"], message.body["data"]))
        place.move_clock(MINUTE)
    assert versions == [(1, {"number": 5}), (2, {"number": 5, "customer": "Ada"})]


def test_a_dead_letter_has_the_state_of_the_last_round(place: Place) -> None:
    def start(order: Any) -> ReceiptStatus:
        order.state = {"operation": 1}
        return PENDING

    transmitter, _ = place.told(start, time_to_live=DAY)
    transmitter.notify_all(Order())
    place.move_clock(DAY + SECOND)
    assert transmitter.process_pending() == processed(dead_lettered=1)
    assert place.buried().body["state"] == {"operation": 1}


def test_a_resubmitted_notification_is_sent_a_last_time_again(place: Place) -> None:
    transmitter, seen = place.told(FAIL, OK, time_to_live=DAY)
    transmitter.notify_all(Order())
    place.move_clock(DAY + SECOND)
    assert transmitter.process_pending() == processed(dead_lettered=1)
    place.queue.dead_letters.resubmit()
    assert transmitter.process_pending() == processed(removed=1)
    assert [order.timed_out for order in seen] == [True, True]


def test_an_expiry_set_by_hand_outweighs_the_time_to_live(place: Place) -> None:
    transmitter, seen = place.told(PENDING, time_to_live=DAY)
    order = Order()
    order.expires_at = expires_at = place.now() + 5 * MINUTE
    transmitter.notify_all(order)
    assert transmitter.process_pending() == processed(kept=1)
    ((*_, next_ready_at, said, _),) = place.pending()
    assert said == expires_at.replace(microsecond=0)  # views show seconds
    assert next_ready_at <= expires_at
    place.move_clock(5 * MINUTE + SECOND)
    assert transmitter.process_pending() == processed(dead_lettered=1)
    assert [each.timed_out for each in seen] == [False, True]


def test_the_pause_ends_when_the_notification_times_out(place: Place) -> None:
    transmitter, seen = place.told(PENDING, pace=Pace(DAY, 1.0, DAY), time_to_live=10 * MINUTE)
    transmitter.notify_all(Order())
    transmitter.process_pending()
    place.move_clock(10 * MINUTE + SECOND)
    assert transmitter.process_pending() == processed(dead_lettered=1)
    assert len(seen) == 2


def test_without_a_time_to_live_it_stays_for_good(place: Place) -> None:
    transmitter, _ = place.told(PENDING, time_to_live=None)
    transmitter.notify_all(Order())
    transmitter.process_pending()
    place.move_clock(1000 * DAY)
    assert transmitter.process_pending() == processed(kept=1)
    ((*_, expires_at, _),) = place.pending()
    assert expires_at is None


@pytest.mark.parametrize("wrong", [timedelta(0), -SECOND, timedelta.max])
def test_a_time_to_live_that_is_none_is_refused(place: Place, wrong: timedelta) -> None:
    with pytest.raises(InvalidArgumentError, match="time_to_live"):
        place.transmitter(time_to_live=wrong)


@pytest.mark.parametrize(
    "body",
    [
        {"notification": "unheard of", "version": 1, "data": {"x": 1}},
        {"notification": "order", "version": 2, "data": {"number": 7}},
        {"notification": "order", "version": 1, "data": {"unfit": 7}},
        {"notification": "order", "version": "one", "data": {"number": 7}},
        "text",
        b"bytes",
        None,
    ],
    ids=["type", "version", "data", "version that is none", "text", "bytes", "nothing"],
)
def test_an_unreadable_message_stays_until_its_expiry_and_raises_nothing(place: Place, body: Any) -> None:
    transmitter, seen = place.told(OK, time_to_live=DAY)
    place.queue.send(Message(body))
    transmitter.notify_all(Order())
    assert transmitter.process_pending() == processed(removed=1, kept=1)
    assert len(seen) == 1
    assert fate(place) is SENT_AGAIN
    place.move_clock(DAY + SECOND)
    assert transmitter.process_pending() == processed(dead_lettered=1)
    assert fate(place) is DEAD_LETTERED
    assert len(seen) == 1


def test_an_unreadable_state_counts_as_a_failure_and_is_reset(place: Place) -> None:
    transmitter, _ = place.told(OK)
    broken = {"attempts": "many", "time_to_live": "long"}
    place.queue.send(Message({"notification": "order", "version": 1, "data": {"number": 7}, **broken}))
    assert transmitter.process_pending() == processed(kept=1)
    assert place.kept().attempts == 1
    place.move_clock(MINUTE)
    assert transmitter.process_pending() == processed(removed=1)


def test_a_type_unknown_here_is_left_for_a_process_of_another_version(place: Place) -> None:
    nobody = NotificationTypes()
    old, _ = place.told(OK, of=nobody)
    new, seen = place.told(OK)
    new.notify_all(Order(5))
    assert old.process_pending() == processed(kept=1)
    place.move_clock(MINUTE)
    assert new.process_pending() == processed(removed=1)
    assert [order.number for order in seen] == [5]


def test_an_unregistered_type_is_refused_and_nothing_is_stored(place: Place) -> None:
    @dataclass
    class Stray(QueueNotification):
        pass

    with pytest.raises(InvalidArgumentError, match="Stray"):
        place.transmitter().notify_all(Stray())
    assert place.found() == []


@pytest.mark.parametrize("field", ["state", "number"])
def test_a_notification_with_what_is_not_json_is_redelivered(place: Place, field: str) -> None:
    def write(order: Any) -> ReceiptStatus:
        setattr(order, field, object())
        return PENDING

    transmitter, _ = place.told(write, OK)
    transmitter.notify_all(Order())
    assert transmitter.process_pending() == processed(lost=1)
    place.move_clock(2 * MINUTE)
    assert transmitter.process_pending() == processed(removed=1)


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def test_any_error_of_a_recipient_can_be_described() -> None:
    text = described([ValueError("a\0b\ud800"), Mute()], FAIL)
    assert text == "the last receipt was FAIL: ValueError: a\ufffdb\ufffd; Mute: <message unavailable>"


def test_a_lock_that_was_lost_meanwhile_is_no_end(place: Place) -> None:
    def dawdle(_: Any) -> ReceiptStatus:
        place.client.purge_queue(place.name)
        return OK

    transmitter, _ = place.told(dawdle)
    transmitter.notify_all(Order())
    assert transmitter.process_pending() == processed(lost=1)


def test_a_missing_queue_raises_queue_not_found(place: Place) -> None:
    transmitter, _ = place.told(OK)
    place.client.delete_queue(place.name)
    for call in (lambda: transmitter.notify_all(Order()), transmitter.process_pending, transmitter.run):
        with pytest.raises(QueueNotFoundError):
            call()


def test_the_view_shows_pending_notifications(place: Place) -> None:
    def start(order: Any) -> ReceiptStatus:
        order.state = {"operation": 1}
        return PENDING

    transmitter, _ = place.told(start, time_to_live=DAY)
    transmitter.notify_all(Order(3))
    sent_at = place.now()
    ((*shown, ready, expires, data),) = place.pending()
    assert (shown, ready, data) == (["order", 1, 0, None, False], None, {"number": 3})
    transmitter.process_pending()
    place.queue.send(Message("an ordinary message is none"))
    ((*shown, ready, expires, data),) = place.pending()
    assert (shown, data) == (["order", 1, 1, {"operation": 1}, False], {"number": 3})
    assert -SECOND < ready - sent_at - MINUTE < 20 * SECOND  # views show seconds
    assert abs(expires - sent_at - DAY) < 20 * SECOND


def test_the_view_shows_the_holder_of_a_notification(place: Place) -> None:
    place.transmitter().notify_all(Order())
    received = place.receive()
    ((locked_by, locked_until),) = place.look(
        "select locked_by, locked_until from pgqueue.notifications where queue = %s", place.name
    )
    assert locked_by
    assert timedelta(0) <= received.locked_until - locked_until < SECOND  # views show seconds


def test_all_of_the_types_of_these_tests_are_known() -> None:
    assert all(map(types.knows, (Order(), Answered(), Patient())))


def test_one_that_python_cannot_read_holds_up_no_other_and_dies_in_its_time(place: Place) -> None:
    transmitter, seen = place.told(OK, time_to_live=DAY)
    place.look("select pgqueue.send(%s, '1e5000'::jsonb, content_type => %s)", place.name, CONTENT_TYPE)
    transmitter.notify_all(Order(8))
    assert transmitter.process_pending().kept == 1
    assert [each.number for each in seen] == [8]
    place.move_clock(DAY + SECOND)
    assert transmitter.process_pending().dead_lettered == 1
    (dead,) = place.dead()
    assert dead.dead_letter_reason == "TTLExpiredException"
    assert "cannot be read" in str(dead.dead_letter_error_description)


@pytest.mark.parametrize("takes_transaction", [False, True])
def test_recipients_are_called_within_the_interceptors(place: Place, takes_transaction: bool) -> None:
    steps: list[Any] = []

    def send(message: Any, call: Any) -> None:
        steps.append("send")
        call(message)

    def handle(received: Any, call: Any) -> None:
        steps.append(received.subject)
        call(received)

    with place.intercepted(send=send, handle=handle) as intercepted:
        transmitter = place.transmitter(on=intercepted)
        recipient = (
            (lambda order, tx: steps.append("received"))
            if takes_transaction
            else lambda order: steps.append("received")
        )
        transmitter.register(place.recipient(recipient))
        transmitter.notify_all(Order(7))
        transmitter.process_pending()
    assert steps == ["send", "order", "received"]


@pytest.mark.parametrize("takes_transaction", [False, True])
def test_an_interceptor_that_fails_fails_the_round(place: Place, takes_transaction: bool) -> None:
    with place.intercepted(handle=lambda received, call: None) as intercepted:
        transmitter = place.transmitter(on=intercepted)
        recipient = (lambda order, tx: FINISHED) if takes_transaction else lambda order: FINISHED
        transmitter.register(place.recipient(recipient))
        transmitter.notify_all(Order(7))
        assert transmitter.process_pending().kept == 1
    assert fate(place) is SENT_AGAIN


def test_an_encrypted_notification_is_remembered_and_never_plain(place: Place) -> None:
    bodies = EncryptedBodies([EncryptedBodies.generate_key()])
    with place.sources.made_of(place.database.dsn, interceptors=[bodies]) as client:
        queue = client.queue(place.name)
        transmitter = place.transmitter(on=queue)
        answers = [FAIL, FAIL, FINISHED]

        def recipient(order: Any) -> ReceiptStatus:
            assert order.number == 4711
            return answers.pop(0)

        transmitter.register(place.recipient(recipient))
        transmitter.notify_all(Order(4711))
        for attempts in (1, 2):
            assert transmitter.process_pending().kept == 1
            (kept,) = queue.peek()
            assert (kept.body["attempts"], is_encrypted(kept.raw_body)) == (attempts, True)
            place.move_clock(60 * MINUTE)
        assert transmitter.process_pending().removed == 1


def test_an_encrypted_notification_that_is_dead_lettered_stays_encrypted(place: Place) -> None:
    bodies = EncryptedBodies([EncryptedBodies.generate_key()])
    with place.sources.made_of(place.database.dsn, interceptors=[bodies]) as client:
        transmitter = place.transmitter(on=client.queue(place.name))
        transmitter.register(place.recipient(lambda order: FAIL))
        transmitter.notify_all(Order(4711))
        place.move_clock(2 * DAY)
        assert transmitter.process_pending().dead_lettered == 1
        (dead,) = client.queue(place.name).dead_letters.peek()
        assert (dead.body["data"], is_encrypted(dead.raw_body)) == ({"number": 4711}, True)
