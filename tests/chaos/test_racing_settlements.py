"""Two settle one delivery at the same time: one of them wins, and the database and both of them agree who."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from itertools import combinations_with_replacement

import pytest

from pgqueue import LockLostError, PGQueueError, ReceiveContext, ReceivedMessage, ReceiveState
from pgqueue.errors import InvalidStateError
from tests.chaos.scene import Scene

Verb = Callable[[ReceivedMessage], object]

VERBS: dict[str, Verb] = {
    "complete": lambda received: received.complete(),
    "abandon": lambda received: received.abandon(),
    "dead-letter": lambda received: received.dead_letter("Raced"),
    "fault": lambda received: received.fault(),
    "renew": lambda received: received.renew_lock(),
}
#: Where a message is when a verb has won.
ENDS = {"complete": "gone", "abandon": "ready", "dead-letter": "dead"}
ROUNDS = 4


@pytest.mark.core
def test_one_of_two_processes_with_the_same_token_settles_and_the_other_has_lost_its_lock(
    scene: Scene,
) -> None:
    for one, other in ROUNDS * list(combinations_with_replacement(ENDS, 2)):
        scene.send()
        received = scene.receive()
        errors = race((VERBS[one], received), (VERBS[other], stranger(received)))
        [loser] = [error for error in errors if error is not None]
        assert isinstance(loser, LockLostError)
        winner = one if errors[0] is None else other
        assert whereabouts(scene, received.sequence_number) == ENDS[winner], f"{one} against {other}"
        scene.client.purge_queue(scene.queue.name)


def test_two_threads_that_settle_one_delivery_leave_a_legal_history(scene: Scene) -> None:
    for one, other in ROUNDS * list(combinations_with_replacement(VERBS, 2)):
        scene.send()
        received = scene.receive()
        errors = race((VERBS[one], received), (VERBS[other], received))
        assert all(error is None or isinstance(error, InvalidStateError | LockLostError) for error in errors)
        assert None in errors
        done = {verb for verb, error in zip((one, other), errors, strict=True) if error is None}
        end = received.state, whereabouts(scene, received.sequence_number)
        assert end in legal_ends(done), f"{one} against {other}: {errors}"
        scene.client.purge_queue(scene.queue.name)


def legal_ends(done: set[str]) -> set[tuple[ReceiveState, str]]:
    """Possible ends of a delivery when these verbs succeeded: at most one of them was a settlement.

    A fault may come before or after a settlement has reached the database.
    """
    [settlement] = done & ENDS.keys() or [None]
    if settlement is None:
        return {(ReceiveState.FAULTED if "fault" in done else ReceiveState.RECEIVED, "locked")}
    settled = ReceiveState.ABANDONED if settlement == "abandon" else ReceiveState.COMPLETED
    ends = {(settled, ENDS[settlement])}
    if "fault" in done:
        ends.add((ReceiveState.FAULTED, ENDS[settlement]))
    return ends


def race(*entrants: tuple[Verb, ReceivedMessage]) -> list[PGQueueError | None]:
    """Calls all verbs at the same moment; what each of them raised."""
    start = threading.Barrier(len(entrants))

    def run(entrant: tuple[Verb, ReceivedMessage]) -> PGQueueError | None:
        verb, received = entrant
        start.wait()
        try:
            verb(received)
        except PGQueueError as error:
            return error
        return None

    with ThreadPoolExecutor(len(entrants)) as threads:
        return list(threads.map(run, entrants))


def stranger(received: ReceivedMessage) -> ReceivedMessage:
    """The same delivery in the hands of another process, which knows nothing of ours."""
    other = copy(received)
    other.context = ReceiveContext()
    return other


def whereabouts(scene: Scene, sequence_number: int) -> str:
    for message in scene.queue.peek(from_sequence_number=sequence_number):
        if message.sequence_number == sequence_number:
            return "locked" if message.locked_until else "ready"
    buried = scene.queue.dead_letters.peek(from_sequence_number=sequence_number)
    return "dead" if [letter for letter in buried if letter.sequence_number == sequence_number] else "gone"
