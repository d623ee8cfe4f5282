from __future__ import annotations

from typing import Any

import pytest

from pgqueue import PeekedMessage
from pgqueue.errors import InvalidArgumentError
from tests.contract.world import MINUTE, World


def test_browsing_shows_everything_in_the_order_sent_and_changes_nothing(own: World) -> None:
    numbers = own.send(*"abcd")
    held, late = own.queue.receive(max_messages=2)
    late.abandon(delay=MINUTE)
    for browsed in (own.queue.peek(max_messages=10), own.found()):
        assert [message.sequence_number for message in browsed] == numbers
        assert [message.body for message in browsed] == ["a", "b", "c", "d"]
        assert [message.delivery_count for message in browsed] == [1, 1, 0, 0]
        assert [message.locked_by is not None for message in browsed] == [True, False, False, False]
        assert browsed[0].locked_until == held.locked_until
    assert [message.body for message in own.queue.receive(max_messages=10)] == ["c", "d"]


def test_browsing_goes_on_from_a_number(own: World) -> None:
    numbers = own.send(*range(10))
    page = own.queue.peek(max_messages=4)
    pages = [page]
    while page := own.queue.peek(max_messages=4, from_sequence_number=page[-1].sequence_number + 1):
        pages.append(page)
    assert [len(page) for page in pages] == [4, 4, 2]
    assert [message.sequence_number for page in pages for message in page] == numbers
    assert [message.body for message in own.queue.peek()] == [0]
    assert own.queue.peek(from_sequence_number=numbers[-1] + 1) == []


def test_a_peeked_message_cannot_be_settled(either: World) -> None:
    either.send("only looked at")
    (browsed,) = either.queue.peek()
    assert type(browsed) is PeekedMessage
    assert not hasattr(browsed, "complete")
    assert not hasattr(browsed, "lock_token")


def test_dead_letters_are_browsed_apart_with_their_reasons(own: World) -> None:
    first, second = own.several_locked(2)
    second.dead_letter("Unreadable", "line 7")
    first.dead_letter("Refused")
    own.send("alive")
    dead = own.queue.dead_letters.peek(max_messages=10)
    assert [(each.body, each.dead_letter_reason, each.dead_letter_error_description) for each in dead] == [
        (0, "Refused", None),
        (1, "Unreadable", "line 7"),
    ]
    assert [each.body for each in own.queue.dead_letters.peek()] == [0]
    assert [each.body for each in own.queue.dead_letters.peek(from_sequence_number=second.sequence_number)] == [1]
    assert own.bodies() == ["alive"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"max_messages": 0},
        {"max_messages": "1"},
        {"max_messages": None},
        {"max_messages": 2**40},
        {"from_sequence_number": "7"},
        {"from_sequence_number": 2**70},
    ],
    ids=str,
)
def test_a_bad_argument_is_named(either: World, arguments: dict[str, Any]) -> None:
    for peek in (either.queue.peek, either.queue.dead_letters.peek):
        with pytest.raises(InvalidArgumentError) as refusal:
            peek(**arguments)
        (argument,) = arguments
        assert f"{argument} must be" in str(refusal.value)
