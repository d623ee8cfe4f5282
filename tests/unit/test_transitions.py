"""The state machine of one delivery, against a table written out here by hand from what is promised."""

from __future__ import annotations

import pytest

from pgqueue.errors import FaultedError, InvalidStateError, MessageAlreadySettledError
from pgqueue.model.context import TRANSITIONS, Event, Outcome, ReceiveContext, ReceiveState, TransactionId
from pgqueue.transports import drive

# A row an event, a column a state: the state that follows; "=" for no effect; "!" and what refuses the call.
PROMISED = """
event      received    completing   completed    abandoning   abandoned    faulted
complete   completing  !illegal     !settled     !illegal     !settled     !faulted
abandon    abandoning  !illegal     !settled     =            =            !faulted
fault      faulted     faulted      =            faulted      =            =
committed  =           completed    =            abandoned    =            =
aborted    =           received     received     received     =            =
"""

EVENTS = {
    "complete": Event.COMPLETE,
    "abandon": Event.ABANDON,
    "fault": Event.FAULT,
    "committed": Event.COMMITTED,
    "aborted": Event.ABORTED,
}

REFUSALS = {"!illegal": InvalidStateError, "!settled": MessageAlreadySettledError, "!faulted": FaultedError}


def cells() -> list[tuple[Event, ReceiveState, str]]:
    heading, *rows = (line.split() for line in PROMISED.strip().splitlines())
    states = [ReceiveState(name) for name in heading[1:]]
    return [(EVENTS[event], state, cell) for event, *row in rows for state, cell in zip(states, row, strict=True)]


def test_every_event_and_every_state_is_promised_something() -> None:
    promised = {(event, state) for event, state, _ in cells()}
    assert promised == {(event, state) for event in Event for state in ReceiveState}
    assert promised == {(event, state) for event, row in TRANSITIONS.items() for state in row}


@pytest.mark.parametrize(("event", "state", "cell"), cells(), ids=lambda part: getattr(part, "name", part))
def test_an_event_in_a_state_has_the_promised_effect(event: Event, state: ReceiveState, cell: str) -> None:
    context = ReceiveContext(state)
    if cell in REFUSALS:
        with pytest.raises(InvalidStateError) as refusal:
            context.apply(event)
        assert type(refusal.value) is REFUSALS[cell]
        assert event.value in str(refusal.value)
        assert state.value in str(refusal.value)
        assert context.state is state
    elif cell == "=":
        assert context.apply(event) is False
        assert context.state is state
    else:
        assert context.apply(event) is True
        assert context.state is ReceiveState(cell)


@pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.DEAD_LETTERED])
@pytest.mark.parametrize("state", ReceiveState)
def test_a_completion_and_a_dead_lettering_are_legal_in_the_same_states(state: ReceiveState, outcome: Outcome) -> None:
    context = ReceiveContext(state)
    if state is ReceiveState.RECEIVED:
        assert drive(context.enter(outcome)) is True
        assert context.state is ReceiveState.COMPLETING
        assert context.outcome is outcome
    else:
        with pytest.raises(InvalidStateError):
            drive(context.enter(outcome))
        assert context.state is state
        assert context.outcome is None


def test_a_refused_call_states_whether_the_delivery_is_over_in_doubt_or_busy() -> None:
    assert issubclass(MessageAlreadySettledError, InvalidStateError)
    assert issubclass(FaultedError, InvalidStateError)
    assert not issubclass(FaultedError, MessageAlreadySettledError)


def test_an_aborted_transaction_leaves_no_trace_in_the_context() -> None:
    context = ReceiveContext()
    drive(context.enter(Outcome.DEAD_LETTERED))
    context.transaction_id = TransactionId("7")
    context.apply(Event.ABORTED)
    assert context.state is ReceiveState.RECEIVED
    assert context.outcome is None
    assert [context.transaction_id] == [None]


def test_a_delivery_that_faulted_while_its_transaction_was_open_stays_faulted_however_that_ends() -> None:
    for end in (Event.COMMITTED, Event.ABORTED):
        context = ReceiveContext()
        drive(context.enter(Outcome.COMPLETED))
        context.fault()
        context.apply(end)
        assert context.state is ReceiveState.FAULTED
