from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pgqueue.errors import InvalidArgumentError
from tests.contract.world import World

HOUR = timedelta(hours=1)


def bury(world: World, *bodies: Any, reason: str = "Bad") -> list[int]:
    world.send(*bodies)
    received = world.queue.receive(max_messages=len(bodies))
    world.queue.dead_letter_batch(received, reason=reason)
    return [message.sequence_number for message in received]


def test_dead_letters_come_back_as_if_they_had_never_been_delivered(own: World) -> None:
    numbers = bury(own, "a", "b")
    assert own.queue.dead_letters.resubmit() == numbers
    assert own.dead() == []
    received = own.queue.receive(max_messages=2)
    assert [(each.sequence_number, each.body, each.delivery_count) for each in received] == [
        (numbers[0], "a", 1),
        (numbers[1], "b", 1),
    ]
    assert [each.dead_letter_reason for each in received] == [None, None]


def test_dead_letters_come_back_by_number_reason_age_and_in_portions(own: World) -> None:
    old = bury(own, "old 1", "old 2", "old 3")
    other = bury(own, "other", reason="Other")
    own.move_clock(2 * HOUR)
    new = bury(own, "new")
    letters = own.queue.dead_letters
    assert letters.resubmit(sequence_numbers=[old[1], 2**60]) == [old[1]]
    assert letters.resubmit(reason="Other") == other
    assert letters.resubmit(reason="Unheard of") == []
    assert letters.resubmit(older_than=HOUR, limit=1) == [old[0]]
    assert letters.resubmit(older_than=HOUR) == [old[2]]
    assert [each.sequence_number for each in own.dead()] == new
    assert letters.resubmit(sequence_numbers=[]) == []


def test_dead_letters_are_purged_by_number(own: World) -> None:
    first, second, third = bury(own, "1", "2", "3")
    letters = own.queue.dead_letters
    assert letters.purge(sequence_numbers=[]) == 0
    assert letters.purge(sequence_numbers=[third, first, first, 2**60]) == 2
    assert [each.sequence_number for each in own.dead()] == [second]
    letters.receive()
    assert letters.purge(sequence_numbers=[second]) == 0
    assert letters.purge() == 1


@pytest.mark.parametrize(
    "arguments",
    [{"limit": 0}, {"limit": "1"}, {"older_than": 3600}, {"reason": 7}, {"reason": "\0"}],
    ids=repr,
)
def test_a_bad_argument_is_named_and_nothing_comes_back(either: World, arguments: dict[str, Any]) -> None:
    bury(either, "dead")
    with pytest.raises(InvalidArgumentError) as refusal:
        either.queue.dead_letters.resubmit(**arguments)
    (argument,) = arguments
    assert f"{argument} must be" in str(refusal.value)
    assert len(either.dead()) == 1
