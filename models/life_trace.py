"""Histories of messages that Life.tla has to allow, or to refuse: LifeTrace.tla."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.chaos.histories import Event, History
from models.table import HERE
from models.traces import Kind


def _end(place: str, events: int) -> Event:
    return Event("find", places=(place,), after=tuple(range(1, events + 1)))


_FIRST, _SECOND = Event("deliver", "1", count=1), Event("deliver", "2", count=2, after=(1,))
#: A lock that is lost, and settlements in doubt, of which one was done.
RARE: tuple[History, ...] = (
    (_FIRST, _SECOND, Event("lose", "1", after=(1, 2)), Event("settle", "2", "gone", after=(2,)), _end("gone", 4)),
    (_FIRST, Event("settle", "1", "dead", is_in_doubt=True, after=(1,)), _end("dead", 2)),
    (_FIRST, Event("settle", "1", "dead", is_in_doubt=True, after=(1,)), _SECOND, _end("ready", 3)),
)


def falsified(history: History) -> Iterator[History]:
    """Histories with another end, a settlement or a loss more, or a delivery of what is dead."""
    *events, end = history
    yield (*events, replace(end, effects=end.effects + 1))
    if not any(event.is_in_doubt for event in events):
        yield (*events, replace(end, places=("ready",) if "gone" in end.places else ("gone",)))
    if (last := _last_settlement(events)) is None:
        return
    settled, delivery = events[last], _delivery(events, events[last].by)
    everything = tuple(range(1, len(events) + 1))
    late = replace(end, after=(*everything, len(history)))
    yield (*events, replace(settled, after=everything), late)
    lost = Event("lose", settled.by, after=(delivery + 1,))
    yield (*events[:last], replace(settled, after=(*settled.after, len(history))), *events[last + 1 :], lost, late)
    if settled.to == "dead":
        again = Event("deliver", "again", count=events[delivery].count + 1, after=everything)
        done = Event("settle", "again", "gone", after=(*everything, len(history)))
        gone = _end("gone", len(history) + 1)
        yield (*events, again, done, replace(gone, effects=end.effects))


def with_older_locks(history: History) -> Iterator[History]:
    """Histories in which the last settlement is by the receiver of an earlier delivery."""
    *events, end = history
    if (last := _last_settlement(events)) is None:
        return
    delivered = events[_delivery(events, events[last].by)]
    for event in events:
        if event.verb == "deliver" and 0 < event.count < delivered.count:
            yield (*events[:last], replace(events[last], by=event.by), *events[last + 1 :], end)


def _last_settlement(events: Sequence[Event]) -> int | None:
    """The place of the last settlement; None if there is none, or it is in doubt."""
    places = [place for place, event in enumerate(events) if event.verb == "settle"]
    return places[-1] if places and not events[places[-1]].is_in_doubt else None


def _delivery(events: Sequence[Event], by: str) -> int:
    return next(place for place, event in enumerate(events) if event.verb == "deliver" and event.by == by)


def _constants(histories: Sequence[History]) -> str:
    tokens = max((len(history) + max(event.count for event in history) for history in histories), default=0)
    return f"Messages={{1}} MaxDeliveries=1000 MaxTokens={tokens} MaxCrashes=0"


MESSAGES = Kind(
    name="histories of messages",
    module="Life",
    recorded=HERE / "histories.jsonl",
    rare=RARE,
    falsified=falsified,
    allowed_without_proof=with_older_locks,
    proof="a settlement proves the token",
    constants=_constants,
)
