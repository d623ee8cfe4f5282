"""Recipients that take part in a transaction, and the bridge."""

from __future__ import annotations

from typing import Any

import pytest

from pgqueue.errors import ConnectionLostError
from pgqueue.flows import Flow
from pgqueue.notifications import NotificationTypes, QueueNotification, ReceiptStatus
from tests.contract.interpreter import meant
from tests.contract.world import SECOND
from tests.notifications.place import (
    ABORT,
    DAY,
    FAIL,
    FINISHED,
    MINUTE,
    NOT_PROCESSED,
    OK,
    PENDING,
    Order,
    Place,
    processed,
)

RAISES = "raises"


def writing(place: Place, *answers: Any, **options: Any) -> Any:
    """A transmitter with a recipient that writes into the transaction, notes it in the state, and answers so."""
    transmitter, left = place.transmitter(**options), list(answers)

    @place.recipient
    def recipient(order: Any, transaction: Any) -> Any:
        answer = left.pop(0) if len(left) > 1 else left[0]
        place.insert(transaction, f"round {order.attempts}")
        order.state = f"round {order.attempts}"
        if answer == RAISES:
            raise ZeroDivisionError("oops")
        return answer

    transmitter.register(recipient)
    return transmitter


@pytest.mark.parametrize("answer", [OK, FINISHED])
@pytest.mark.core
def test_effects_commit_with_the_removal(place: Place, answer: ReceiptStatus) -> None:
    transmitter = writing(place, answer)
    transmitter.notify_all(Order())
    assert transmitter.process_pending() == processed(removed=1)
    assert (place.effects(), place.found()) == (["round 0"], [])


@pytest.mark.parametrize("answer", [PENDING, NOT_PROCESSED, None])
def test_effects_commit_with_the_state_of_one_that_is_pending(place: Place, answer: ReceiptStatus) -> None:
    transmitter = writing(place, answer, OK)
    transmitter.notify_all(Order())
    assert transmitter.process_pending() == processed(kept=1)
    kept = place.kept()
    assert (place.effects(), kept.state, kept.attempts, kept.delivery_count) == (["round 0"], "round 0", 1, 0)
    place.move_clock(MINUTE)
    assert transmitter.process_pending() == processed(removed=1)
    assert place.effects() == ["round 0", "round 1"]


# Sequences are not rolled back, so they show which transaction wrote, even where that was undone.
WITNESSES = """
create sequence told_in;
create sequence settled_in;
create function witness() returns trigger language plpgsql security definer set search_path = public as $$
begin
    perform setval(('public.' || tg_argv[0])::regclass, pg_current_xact_id()::text::bigint);
    return null;
end
$$;
create trigger witness after insert on effect for each row execute function witness('told_in');
create trigger witness after insert on pgqueue.scheduled_message for each row execute function witness('settled_in');
create trigger witness after insert on pgqueue.dead_letter for each row execute function witness('settled_in');
"""
NO_WITNESSES = """
drop function witness() cascade;
drop sequence told_in, settled_in;
"""


@pytest.mark.parametrize("is_over", [False, True], ids=["sent again", "dead-lettered"])
@pytest.mark.parametrize("answer", [FAIL, RAISES])
def test_a_failed_round_is_settled_in_its_own_transaction_so_that_no_other_takes_it_over(
    place: Place, answer: Any, is_over: bool
) -> None:
    transmitter = writing(place, answer, time_to_live=DAY)
    transmitter.notify_all(Order())
    if is_over:
        place.move_clock(2 * DAY)
    place.run(WITNESSES)
    try:
        assert transmitter.process_pending().total == 1
        ((told, settled),) = place.look("select told_in.last_value, settled_in.last_value from told_in, settled_in")
    finally:
        place.run(NO_WITNESSES)
    assert told == settled
    assert place.effects() == []


@pytest.mark.parametrize("answer", [FAIL, ABORT, RAISES])
def test_effects_are_undone_by_a_failure_and_the_state_is_kept(place: Place, answer: Any) -> None:
    transmitter = writing(place, answer, OK)
    transmitter.notify_all(Order())
    assert transmitter.process_pending() == processed(kept=1)
    kept = place.kept()
    assert (place.effects(), kept.state, kept.attempts, kept.delivery_count) == ([], "round 0", 1, 0)
    place.move_clock(MINUTE)
    assert transmitter.process_pending() == processed(removed=1)
    assert place.effects() == ["round 1"]


@pytest.mark.parametrize("answer", [FAIL, ABORT, RAISES, PENDING, NOT_PROCESSED])
def test_effects_of_one_that_is_given_up_are_undone(place: Place, answer: Any) -> None:
    transmitter = writing(place, answer, time_to_live=DAY)
    transmitter.notify_all(Order())
    place.move_clock(DAY + SECOND)
    assert transmitter.process_pending() == processed(dead_lettered=1)
    assert place.effects() == []
    assert place.buried().dead_letter_reason == "TTLExpiredException"


def test_one_failure_undoes_the_work_of_the_others(place: Place) -> None:
    transmitter = writing(place, OK)
    transmitter.register(lambda _: FAIL)
    transmitter.notify_all(Order())
    assert transmitter.process_pending() == processed(kept=1)
    assert place.effects() == []


def test_a_recipient_that_ends_the_round_with_success_commits_the_work_done_before(place: Place) -> None:
    transmitter = writing(place, FAIL)
    transmitter.register(lambda _: FINISHED)
    transmitter.notify_all(Order())
    assert transmitter.process_pending() == processed(removed=1)
    assert place.effects() == ["round 0"]


def test_a_statement_that_fails_is_a_failure_and_the_notification_stays(place: Place) -> None:
    transmitter = place.transmitter()
    left = ["select 1 / 0", "select 1"]

    @place.recipient
    def recipient(order: Any, transaction: Any) -> ReceiptStatus:
        order.state = "tried"
        transaction.execute(left.pop(0))
        return OK

    transmitter.register(recipient)
    transmitter.notify_all(Order())
    assert transmitter.process_pending() == processed(kept=1)
    assert place.kept().state == "tried"
    place.move_clock(MINUTE)
    assert transmitter.process_pending() == processed(removed=1)


def test_a_statement_that_fails_in_silence_is_no_success(place: Place) -> None:
    transmitter = place.transmitter()

    @place.recipient
    def recipient(order: Any, transaction: Any) -> ReceiptStatus:
        try:
            transaction.execute("select 1 / 0")
        except Exception:  # noqa: BLE001 - that is the recipient's mistake
            return OK
        raise AssertionError

    transmitter.register(recipient)
    transmitter.notify_all(Order())
    assert transmitter.process_pending() == processed(kept=1)


@pytest.mark.parametrize("answer", [OK, PENDING])
def test_a_commit_that_is_refused_is_a_failure_of_the_round_and_the_notification_stays(
    place: Place, answer: ReceiptStatus
) -> None:
    transmitter = place.transmitter()

    @place.recipient
    def recipient(order: Any, transaction: Any) -> ReceiptStatus:
        if order.state is None:
            order.state = "tried"
            order.complete = answer is OK
            transaction.execute("insert into checked_late values (1), (1)")
        return answer

    transmitter.register(recipient)
    transmitter.notify_all(Order())
    assert transmitter.process_pending() == processed(kept=1)
    kept = place.kept()
    assert (kept.state, kept.attempts, kept.delivery_count) == ("tried", 1, 0)
    place.move_clock(MINUTE)
    assert transmitter.process_pending() == processed(**{"removed" if answer is OK else "kept": 1})


def test_a_connection_that_breaks_under_a_recipient_costs_the_effects_but_not_the_state(place: Place) -> None:
    transmitter = place.transmitter()

    @place.recipient
    def recipient(order: Any, transaction: Any) -> ReceiptStatus:
        if order.state is None:
            order.state = "tried"
            place.insert(transaction, "lost")
            transaction.execute("select pg_terminate_backend(pg_backend_pid())")
        return OK

    transmitter.register(recipient)
    transmitter.notify_all(Order())
    assert transmitter.process_pending() == processed(kept=1)
    assert (place.kept().state, place.kept().delivery_count, place.effects()) == ("tried", 0, [])
    place.move_clock(MINUTE)
    assert transmitter.process_pending() == processed(removed=1)


class Unanswered:
    """A transaction whose COMMIT is not answered, though it may have been done."""

    def __init__(self, begun: Any, *, done: bool) -> None:
        self._begun = begun
        self._done = done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._begun, name)

    def commit(self, last: Any = None) -> Flow[None]:
        yield from self._begun.commit(last) if self._done else self._begun.rollback()
        raise ConnectionLostError("the server went away")


@pytest.mark.parametrize("answer", [OK, PENDING])
@pytest.mark.parametrize("done", [False, True], ids=["not done", "done"])
def test_the_outcome_of_an_unanswered_commit_is_queried(place: Place, answer: ReceiptStatus, done: bool) -> None:
    transmitter = writing(place, answer)
    begin = meant(transmitter)._processing._begin

    def begin_unanswered() -> Flow[Any]:
        return Unanswered((yield from begin()), done=done)

    meant(transmitter)._processing._begin = begin_unanswered
    transmitter.notify_all(Order())
    assert transmitter.process_pending() == processed(**{"removed" if done and answer is OK else "kept": 1})
    assert place.effects() == (["round 0"] if done else [])
    if place.found():
        assert (place.kept().state, place.kept().attempts, place.kept().delivery_count) == ("round 0", 1, 0)


@pytest.mark.parametrize("workplace", ["connection", "pool", "engine", "session maker"])
def test_the_transaction_is_begun_on_the_source_given_to_the_transmitter(place: Place, workplace: str) -> None:
    with place.sources.workplace(workplace) as source:
        transmitter = place.transmitter(source=meant(source))
        given: list[str] = []

        @place.recipient
        def recipient(order: Any, transaction: Any) -> ReceiptStatus:
            given.append(type(meant(transaction)).__name__)
            return OK

        transmitter.register(recipient)
        transmitter.notify_all(Order())
        assert transmitter.process_pending() == processed(removed=1)
    kind = {"engine": "Connection", "session maker": "Session"}.get(workplace, "Connection")
    assert given == [("Async" if place.is_async else "") + kind]


@pytest.mark.parametrize("wanted", [False, True], ids=["not wanted", "wanted"])
def test_a_transaction_is_open_only_where_a_recipient_wants_one(place: Place, wanted: bool) -> None:
    open_meanwhile: list[int] = []

    def look(_: Any) -> ReceiptStatus:
        held = """select from pg_stat_activity
                   where datname = current_database() and state = 'idle in transaction'"""
        open_meanwhile.append(len(place.look(held)))
        return OK

    def look_within(order: Any, transaction: Any) -> ReceiptStatus:
        return look(order)

    transmitter = place.transmitter()
    transmitter.register(place.recipient(look_within if wanted else look))
    transmitter.notify_all(Order())
    transmitter.process_pending()
    assert open_meanwhile == [int(wanted)]


def bridged(place: Place, **options: Any) -> tuple[Any, Any, Any]:
    """A transmitter with a bridge, the bridge, and the queue that it leads to."""
    to = f"{place.name}-far"
    place.client.create_queue(to)
    far = place.client.queue(to)
    transmitter, bridge = place.transmitter(), place.bridge(far, **options)
    transmitter.register(bridge)
    return transmitter, bridge, far


def numbers(queue: Any) -> list[int]:
    return [message.body["data"]["number"] for message in queue.peek(max_messages=10)]


def test_a_bridge_forwards_once_and_the_notification_stays_pending(place: Place) -> None:
    transmitter, _, far = bridged(place)
    order = Order(4)
    order.expires_at = expires_at = place.now() + DAY
    order.state = "ours"
    transmitter.notify_all(order)
    for _ in range(3):
        assert transmitter.process_pending() == processed(kept=1)
        place.move_clock(5 * MINUTE)
    assert numbers(far) == [4]
    (message,) = far.peek()
    assert (message.subject, message.body["attempts"], message.body["state"]) == ("order", 0, None)
    assert message.body["expires_at"] == expires_at.isoformat()


def test_a_bridge_may_be_the_end_of_it_here(place: Place) -> None:
    transmitter, _, far = bridged(place, answer=FINISHED)
    transmitter.notify_all(Order(4))
    assert transmitter.process_pending() == processed(removed=1)
    assert (numbers(far), place.found()) == ([4], [])


def test_a_forwarded_message_is_a_notification_in_its_new_queue(place: Place) -> None:
    transmitter, _, far = bridged(place, answer=FINISHED)
    transmitter.notify_all(Order(4))
    transmitter.process_pending()
    there = Place(place.mode, place.sources)
    there.queue = far
    other, seen = there.told(OK)
    assert other.process_pending() == processed(removed=1)
    assert [order.number for order in seen] == [4]


def test_nothing_is_forwarded_by_a_round_that_is_undone_and_the_next_one_does(place: Place) -> None:
    transmitter, _, far = bridged(place)
    left = [FAIL, OK, OK]
    transmitter.register(lambda _: left.pop(0))
    transmitter.notify_all(Order(4))
    assert transmitter.process_pending() == processed(kept=1)
    assert numbers(far) == []
    for _ in range(2):
        place.move_clock(5 * MINUTE)
        assert transmitter.process_pending() == processed(kept=1)
        assert numbers(far) == [4]


def test_a_bridge_to_a_queue_that_is_not_there_fails_and_is_tried_again(place: Place) -> None:
    transmitter, _, far = bridged(place, answer=FINISHED)
    place.client.delete_queue(f"{place.name}-far")
    transmitter.notify_all(Order(4))
    assert transmitter.process_pending() == processed(kept=1)
    place.client.create_queue(f"{place.name}-far")
    place.move_clock(MINUTE)
    assert transmitter.process_pending() == processed(removed=1)
    assert numbers(far) == [4]


def test_two_bridges_forward_to_two_queues(place: Place) -> None:
    transmitter, _, far = bridged(place)
    place.client.create_queue(f"{place.name}-farther")
    farther = place.client.queue(f"{place.name}-farther")
    transmitter.register(place.bridge(farther))
    transmitter.notify_all(Order(4))
    transmitter.process_pending()
    place.move_clock(5 * MINUTE)
    transmitter.process_pending()
    assert (numbers(far), numbers(farther)) == ([4], [4])


def test_a_bridge_does_not_know_types_that_are_not_registered_with_it(place: Place) -> None:
    none = NotificationTypes()
    transmitter, _, far = bridged(place, of=none)
    transmitter.notify_all(Order())
    assert transmitter.process_pending() == processed(kept=1)
    assert far.peek() == []
    assert not none.knows(QueueNotification())
