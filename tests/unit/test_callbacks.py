from __future__ import annotations

from functools import partial

import pytest

from pgqueue.model.context import Event, Outcome, ReceiveContext, ReceiveState
from pgqueue.transports import drive


class Witness:
    """Registered as all three callbacks of a context, writes down who was called and in which state."""

    def __init__(self, context: ReceiveContext) -> None:
        self.saw: list[tuple[str, ReceiveState]] = []
        context.on_complete(lambda: self.saw.append(("complete", context.state)))
        context.on_abandon(lambda: self.saw.append(("abandon", context.state)))
        context.on_fault(lambda: self.saw.append(("fault", context.state)))


@pytest.fixture
def context() -> ReceiveContext:
    return ReceiveContext()


@pytest.fixture
def witness(context: ReceiveContext) -> Witness:
    return Witness(context)


def test_on_complete_runs_in_completing_before_anything_is_final(context: ReceiveContext, witness: Witness) -> None:
    drive(context.enter(Outcome.COMPLETED))
    assert witness.saw == [("complete", ReceiveState.COMPLETING)]
    context.apply(Event.COMMITTED)
    assert len(witness.saw) == 1


def test_on_abandon_runs_in_abandoning(context: ReceiveContext, witness: Witness) -> None:
    drive(context.enter(Outcome.ABANDONED))
    assert witness.saw == [("abandon", ReceiveState.ABANDONING)]


def test_an_abandon_without_effect_runs_no_callback(context: ReceiveContext, witness: Witness) -> None:
    drive(context.enter(Outcome.ABANDONED))
    assert drive(context.enter(Outcome.ABANDONED)) is False
    context.apply(Event.COMMITTED)
    assert drive(context.enter(Outcome.ABANDONED)) is False
    assert len(witness.saw) == 1


def test_a_dead_lettering_runs_no_callback(context: ReceiveContext, witness: Witness) -> None:
    drive(context.enter(Outcome.DEAD_LETTERED))
    assert witness.saw == []


def test_on_fault_runs_once_at_the_most(context: ReceiveContext, witness: Witness) -> None:
    context.fault()
    context.fault()
    assert witness.saw == [("fault", ReceiveState.FAULTED)]


def test_on_fault_does_not_run_for_a_delivery_that_is_over(context: ReceiveContext, witness: Witness) -> None:
    drive(context.enter(Outcome.ABANDONED))
    context.apply(Event.COMMITTED)
    context.fault()
    assert [call for call, _ in witness.saw] == ["abandon"]


def test_callbacks_run_in_the_order_they_were_registered(context: ReceiveContext) -> None:
    order: list[int] = []
    for number in (1, 2, 3):
        context.on_complete(partial(order.append, number))
    drive(context.enter(Outcome.COMPLETED))
    assert order == [1, 2, 3]


def test_a_registration_can_decorate(context: ReceiveContext) -> None:
    @context.on_fault
    def remember() -> str:
        return "still a function"

    assert remember() == "still a function"


@pytest.mark.parametrize(
    ("event", "outcome"), [(Event.COMPLETE, Outcome.COMPLETED), (Event.ABANDON, Outcome.ABANDONED)]
)
def test_a_callback_that_raises_faults_the_context(context: ReceiveContext, event: Event, outcome: Outcome) -> None:
    faults: list[ReceiveState] = []
    context.on_fault(lambda: faults.append(context.state))
    register = context.on_complete if event is Event.COMPLETE else context.on_abandon
    register(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        drive(context.enter(outcome))
    assert context.state is ReceiveState.FAULTED
    assert faults == [ReceiveState.FAULTED]


def test_a_fault_callback_that_raises_does_not_run_again(context: ReceiveContext) -> None:
    calls: list[None] = []

    @context.on_fault
    def fail() -> None:
        calls.append(None)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        context.fault()
    context.fault()
    assert context.state is ReceiveState.FAULTED
    assert len(calls) == 1


def test_a_fault_callback_that_raises_keeps_no_other_from_being_called(context: ReceiveContext) -> None:
    calls: list[int] = []
    context.on_fault(lambda: 1 / 0)
    context.on_fault(partial(calls.append, 2))
    with pytest.raises(ZeroDivisionError):
        context.fault()
    assert calls == [2]


def test_an_error_of_a_fault_callback_about_a_lost_lock_is_logged(
    context: ReceiveContext, caplog: pytest.LogCaptureFixture
) -> None:
    context.on_fault(lambda: 1 / 0)
    context.lose()
    assert context.state is ReceiveState.FAULTED
    assert "an on_fault callback has failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_callback_may_call_the_context_back(context: ReceiveContext) -> None:
    context.on_complete(context.fault)
    drive(context.enter(Outcome.COMPLETED))
    assert context.state is ReceiveState.FAULTED


def test_callbacks_run_again_when_a_delivery_is_completed_again_after_an_abort(
    context: ReceiveContext, witness: Witness
) -> None:
    drive(context.enter(Outcome.COMPLETED))
    context.apply(Event.ABORTED)
    drive(context.enter(Outcome.COMPLETED))
    assert witness.saw == [("complete", ReceiveState.COMPLETING)] * 2
