"""Racing calls from several threads end in one legal history."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from pgqueue.errors import InvalidStateError
from pgqueue.model.context import Event, Outcome, ReceiveContext, ReceiveState
from pgqueue.transports import drive

THREADS = 8
ROUNDS = 60

Call = Callable[[ReceiveContext], object]


def complete(context: ReceiveContext) -> object:
    drive(context.enter(Outcome.COMPLETED))
    context.apply(Event.COMMITTED)
    return "completed"


def abandon(context: ReceiveContext) -> object:
    begun = drive(context.enter(Outcome.ABANDONED))
    context.apply(Event.COMMITTED)
    return "abandoned" if begun else "nothing to do"


def fault(context: ReceiveContext) -> object:
    context.fault()
    return "faulted"


def race(context: ReceiveContext, calls: Sequence[Call]) -> list[object]:
    """Lets all calls go at the same moment; answers with what each returned or was refused with."""
    barrier = threading.Barrier(len(calls))

    def run(call: Call) -> object:
        barrier.wait(timeout=300)
        try:
            return call(context)
        except InvalidStateError as refusal:
            return type(refusal).__name__

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))


def test_one_of_many_completions_wins_and_the_others_are_refused() -> None:
    for _ in range(ROUNDS):
        context = ReceiveContext()
        called: list[None] = []
        context.on_complete(partial(called.append, None))
        outcomes = race(context, [complete] * THREADS)
        assert outcomes.count("completed") == 1
        assert set(outcomes) <= {"completed", "InvalidStateError", "MessageAlreadySettledError"}
        assert len(called) == 1
        assert context.state is ReceiveState.COMPLETED


def test_one_of_many_abandons_wins_and_the_others_have_no_effect() -> None:
    for _ in range(ROUNDS):
        context = ReceiveContext()
        called: list[None] = []
        context.on_abandon(partial(called.append, None))
        outcomes = race(context, [abandon] * THREADS)
        assert sorted(map(str, outcomes)) == ["abandoned"] + ["nothing to do"] * (THREADS - 1)
        assert len(called) == 1
        assert context.state is ReceiveState.ABANDONED


def test_one_of_many_faults_runs_the_callback() -> None:
    for _ in range(ROUNDS):
        context = ReceiveContext()
        called: list[None] = []
        context.on_fault(partial(called.append, None))
        race(context, [fault] * THREADS)
        assert len(called) == 1
        assert context.state is ReceiveState.FAULTED


@pytest.mark.parametrize("rivals", [(complete, abandon), (complete, fault), (abandon, fault)])
def test_either_of_two_rivals_wins_and_both_get_the_true_outcome(rivals: tuple[Call, Call]) -> None:
    for _ in range(ROUNDS):
        context = ReceiveContext()
        outcomes = race(context, rivals * (THREADS // 2))
        match context.state:
            case ReceiveState.COMPLETED:
                assert outcomes.count("completed") == 1
                assert "abandoned" not in outcomes
            case ReceiveState.ABANDONED:
                assert outcomes.count("abandoned") == 1
                assert "completed" not in outcomes
            case ReceiveState.FAULTED:
                assert "faulted" in outcomes
                assert outcomes.count("completed") + outcomes.count("abandoned") <= 1
            case other:
                pytest.fail(f"no history of these calls ends in {other}")


def test_a_completion_and_a_dead_lettering_never_both_begin() -> None:
    def dead_letter(context: ReceiveContext) -> object:
        drive(context.enter(Outcome.DEAD_LETTERED))
        return "dead-lettered"

    def begin(context: ReceiveContext) -> object:
        drive(context.enter(Outcome.COMPLETED))
        return "completed"

    for _ in range(ROUNDS):
        context = ReceiveContext()
        outcomes = race(context, [begin, dead_letter] * (THREADS // 2))
        winners = [outcome for outcome in outcomes if outcome in ("completed", "dead-lettered")]
        assert len(winners) == 1
        assert context.outcome is Outcome(winners[0])
