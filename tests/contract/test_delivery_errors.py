"""The errors of failed deliveries, as far as a message keeps them."""

from __future__ import annotations

from typing import Any

import pytest

from pgqueue import DeadLetter, PeekedMessage
from pgqueue.errors import InvalidArgumentError
from tests.contract.world import MINUTE, World

KEPT = "select count(*) from pgqueue.failed_message join pgqueue.queue on id = queue_id where name = %s"


def raised(error: Exception) -> Exception:
    """The error, with a traceback."""
    try:
        raise error
    except Exception as caught:  # noqa: BLE001 - returned
        return caught


def kept(world: World) -> int:
    """Of how many messages of the queue anything is kept."""
    ((count,),) = world.look(KEPT, world.name)
    return int(count)


def told(message: PeekedMessage) -> Any:
    assert message.last_error is not None
    return message.last_error.type, message.last_error.text, message.last_error.delivery_count


def failed(world: World, error: Exception | None = None, **options: Any) -> None:
    """A new message that was abandoned with an error."""
    world.locked().abandon(error=raised(error or ValueError("no")), **options)


def test_an_abandoned_message_keeps_the_error_for_who_peeks_and_who_receives(world: World) -> None:
    received = world.locked()
    with world.transaction() as transaction:
        received.abandon(error=raised(ValueError("no such street")), transaction=transaction.handle)
        transaction.commit()
    assert told(world.found()[0]) == ("ValueError", "no such street", 1)
    again = world.receive()
    assert told(again) == ("ValueError", "no such street", 1)
    assert again.last_error is not None
    assert again.last_error.locked_by == received.locked_by
    assert "in raised" in (again.last_error.traceback or "")


def test_an_error_is_undone_with_its_transaction(caller: World) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        received.abandon(error=ValueError("no"), transaction=transaction.handle)
        transaction.rollback()
    assert caller.found()[0].last_error is None
    assert kept(caller) == 0


def test_a_message_that_rests_keeps_its_error_and_so_does_the_next_delivery(own: World) -> None:
    failed(own, delay=MINUTE)
    assert told(own.found()[0]) == ("ValueError", "no", 1)
    own.move_clock(MINUTE)
    received = own.receive()
    received.abandon()
    assert told(own.receive()) == ("ValueError", "no", 1)


def test_many_are_abandoned_with_one_error(world: World) -> None:
    received = world.several_locked(3)
    with world.transaction() as transaction:
        world.queue.abandon_batch(received, error=KeyError("street"), transaction=transaction.handle)
        transaction.commit()
    assert [told(message) for message in world.found()] == [("KeyError", "'street'", 1)] * 3


def test_the_last_errors_are_logged_if_the_queue_retains_them(own: World) -> None:
    own.client.update_queue(own.name, retain_errors=2)
    own.send("a")
    for number in range(3):
        own.receive().abandon(error=ValueError(number))
    received = own.receive()
    assert [error.text for error in received.delivery_log] == ["1", "2"]
    assert received.delivery_log[-1] == received.last_error
    own.client.update_queue(own.name, retain_errors=None)
    received.abandon(error=ValueError(3))
    assert own.receive().delivery_log == ()


def test_a_dead_letter_keeps_the_error_which_is_its_description_if_there_is_no_other(world: World) -> None:
    described, other = world.several_locked(2)
    with world.transaction() as transaction:
        error = ValueError("no such street\nin town")
        described.dead_letter("Bad", "as described", error=error, transaction=transaction.handle)
        other.dead_letter("Bad", error=error, properties={"seen": True}, transaction=transaction.handle)
        transaction.commit()
    first, second = world.dead()
    assert first.dead_letter_error_description == "as described"
    assert second.dead_letter_error_description == "ValueError: no such street"
    assert second.application_properties == {"seen": True}
    assert told(first) == told(second) == ("ValueError", "no such street\nin town", 1)


def test_a_batch_of_dead_letters_has_one_error_and_the_same_properties(own: World) -> None:
    own.queue.dead_letter_batch(own.several_locked(2), reason="Bad", error=KeyError("k"), properties={"by": "me"})
    assert [told(message) for message in own.dead()] == [("KeyError", "'k'", 1)] * 2
    assert [message.application_properties for message in own.dead()] == [{"by": "me"}] * 2


def test_a_dead_letter_that_is_abandoned_has_the_later_error(own: World) -> None:
    own.locked().dead_letter("Bad", error=ValueError("first"))
    (dead,) = own.queue.dead_letters.receive()
    assert told(dead) == ("ValueError", "first", 1)
    dead.abandon(error=ValueError("second"))
    assert told(own.dead()[0]) == ("ValueError", "second", 2)


def test_a_message_that_runs_out_of_deliveries_dies_of_its_last_error(own: World) -> None:
    own.client.update_queue(own.name, max_delivery_count=1)
    failed(own, ValueError("no such street"))
    assert own.queue.receive() == []
    (dead,) = own.dead()
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert dead.dead_letter_error_description == (
        "the queue allows 1 deliveries; delivery 1 failed with ValueError: no such street"
    )
    assert told(dead) == ("ValueError", "no such street", 1)


def test_work_that_fails_leaves_its_error(either: World) -> None:
    def work(_: Any, tx: Any) -> None:
        raise ValueError("no such street")

    with pytest.raises(ValueError, match="street"):
        either.sources.process(either.locked(), work)
    (message,) = either.found()
    assert told(message) == ("ValueError", "no such street", 1)
    assert message.last_error is not None
    assert "in work" in (message.last_error.traceback or "")
    assert "flows" not in (message.last_error.traceback or "")


def test_the_cause_of_a_raised_dead_letter_is_its_error(either: World) -> None:
    def work(_: Any, tx: Any) -> None:
        raise DeadLetter("Bad", "no order") from KeyError("id")

    either.sources.process(either.locked(), work)
    (dead,) = either.dead()
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("Bad", "no order")
    assert told(dead) == ("KeyError", "'id'", 1)


@pytest.mark.parametrize("error", ["text", ValueError, 7], ids=repr)
def test_an_error_that_is_no_exception_is_refused_and_nothing_is_settled(either: World, error: Any) -> None:
    received = either.locked()
    for settle in (received.abandon, lambda **given: received.dead_letter("Bad", **given)):
        with pytest.raises(InvalidArgumentError, match="error must be an exception"):
            settle(error=error)
    received.complete()


def completed(world: World) -> None:
    world.receive().complete()


def completed_in_a_batch(world: World) -> None:
    world.queue.complete_batch([world.receive()])


def received_and_deleted(world: World) -> None:
    world.queue.receive_and_delete()


def purged(world: World) -> None:
    world.client.purge_queue(world.name)


def dead_and_completed(world: World) -> None:
    world.receive().dead_letter("Bad")
    world.queue.dead_letters.receive()[0].complete()


def dead_and_taken(world: World) -> None:
    world.receive().dead_letter("Bad")
    world.queue.dead_letters.receive_and_delete()


def dead_and_purged(world: World) -> None:
    world.receive().dead_letter("Bad")
    world.queue.dead_letters.purge()


def dropped(world: World) -> None:
    world.client.delete_queue(world.name)


def cancelled(world: World) -> None:
    world.receive().abandon(delay=MINUTE, error=ValueError("later"))
    world.queue.cancel_scheduled([world.found()[0].sequence_number])


ENDS = [completed, completed_in_a_batch, received_and_deleted, purged, dead_and_completed, dead_and_taken]
ENDS += [dead_and_purged, dropped, cancelled]


@pytest.mark.parametrize("history", [False, True], ids=["", "history"])
@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_with_the_message_its_errors_go(either: World, end: Any, history: bool) -> None:
    if history:
        either.client.update_queue(either.name, retain_history=60 * MINUTE)
    failed(either)
    assert kept(either) == 1
    end(either)
    assert kept(either) == 0


def test_an_expired_message_takes_its_errors_along(either: World) -> None:
    either.client.update_queue(either.name, default_message_time_to_live=MINUTE)
    failed(either)
    either.move_clock(2 * MINUTE)
    assert either.queue.receive() == []
    assert kept(either) == 0


def test_a_resubmitted_message_knows_what_it_died_of(own: World) -> None:
    own.locked().dead_letter("Bad", "no order", error=ValueError("no"))
    own.queue.dead_letters.resubmit()
    for message in (own.found()[0], received := own.receive()):
        origin = message.resubmitted_from
        assert origin is not None
        assert (origin.queue, origin.reason, origin.description) == (f"{own.name}/$deadletterqueue", "Bad", "no order")
        assert (origin.delivery_count, origin.times) == (1, 1)
        assert origin.last_error is not None
        assert (origin.last_error.type, message.last_error) == ("ValueError", None)
    received.dead_letter("Worse")
    own.queue.dead_letters.resubmit()
    again = own.receive()
    assert again.resubmitted_from is not None
    assert (again.resubmitted_from.reason, again.resubmitted_from.times) == ("Worse", 2)
    again.complete()
    assert kept(own) == 0


def test_the_last_delivery_is_over_when_it_is_abandoned(world: World) -> None:
    world.client.update_queue(world.name, max_delivery_count=1)
    received = world.several_locked(3)
    with world.transaction() as transaction:
        received[0].abandon(transaction=transaction.handle)
        received[1].abandon(delay=MINUTE, error=KeyError("k"), transaction=transaction.handle)
        transaction.commit()
    world.queue.abandon_batch(received[2:])
    assert world.found() == []
    assert [message.dead_letter_error_description for message in world.dead()] == [
        "the queue allows 1 deliveries; delivery 1 was abandoned",
        "the queue allows 1 deliveries; delivery 1 failed with KeyError: 'k'",
        "the queue allows 1 deliveries; delivery 1 was abandoned",
    ]
