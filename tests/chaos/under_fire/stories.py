"""Histories made by hand: what actors would have written down, a line for each operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.chaos import session_histories
from benchmarks.chaos.deeds import tell
from benchmarks.chaos.evidence import Evidence, State, Stored, Stuck
from benchmarks.chaos.histories import History, histories
from benchmarks.chaos.history import Operation, Outcome
from benchmarks.chaos.rules import Case, Violation, judge

LOCK_SECONDS = 2.0


class Story:
    """Operations one after the other, a second each, unless another moment is given."""

    def __init__(self) -> None:
        self._operations: list[Operation] = []
        self._now = 0.0

    def send(self, message: str = "m", outcome: str = "ok", **when: float) -> str:
        return self._tell("send", outcome, {"ids": [message]}, **when)

    def send_to_session(self, *messages: str, outcome: str = "ok", scheduled: bool = False, **when: float) -> str:
        facts = {"ids": list(messages), "session": "s", "scheduled": scheduled}
        return self._tell("send", outcome, facts, **when)

    def done(self, *messages: str, states: Sequence[State] = ()) -> list[str]:
        """The rules that are broken when these messages were done, in this order."""
        evidence = Evidence(
            effects={message: ("somebody",) * messages.count(message) for message in messages},
            done_at={message: float(place) for place, message in enumerate(messages)},
            sessions=tuple(states),
        )
        return [violation.rule for violation in judge(Case(tell(self._operations), evidence, LOCK_SECONDS))]

    def receive(self, token: str, *, count: int = 1, delivered: float = 0.0, message: str = "m", **when: float) -> str:
        lock = (message, token, delivered + LOCK_SECONDS, count)
        return self._tell("receive", "ok", {"deliveries": [lock]}, **when)

    def settle(
        self,
        token: str,
        how: str = "complete",
        outcome: str = "ok",
        *,
        effect: bool = True,
        message: str = "m",
        **facts: Any,
    ) -> str:
        when = {key: facts.pop(key) for key in ("began", "took") if key in facts}
        state = facts.pop("state", None)
        told = {"how": how, "locks": [(message, token)], "effect": effect, "states": [state]}
        return self._tell("settle", outcome, told | facts, **when)

    def release(self, token: str, outcome: str = "ok") -> str:
        """Gives up the lock on the session."""
        return self.settle(token, "release", outcome, effect=False, message="session s of q")

    def take(self, *messages: str, outcome: str = "ok", effect: bool = False) -> str:
        return self._tell("take", outcome, {"effect": effect} | ({"ids": list(messages)} if messages else {}))

    def wipe(self, verb: str = "purge", outcome: str = "ok", **when: float) -> str:
        return self._tell(verb, outcome, {}, **when)

    def step_clock(self, by: float) -> str:
        return self._tell("clock", "ok", {"by": by})

    def forget(self, **when: float) -> str:
        """A failover that forgets what was committed meanwhile; locks are given out at the time of the story."""
        began, took = when.get("began", self._now), when.get("took", 0.5)
        return self._tell("forget", "ok", {"locked_between": [began, began + took]}, **when)

    def rewind(self) -> str:
        return self._tell("rewind", "ok", {})

    def fail(self, sqlstate: str) -> str:
        return self._tell("receive", "fail", {"sqlstate": sqlstate})

    def broken(
        self,
        *stored: Stored,
        effects: Sequence[str] = (),
        stuck: Sequence[Stuck] = (),
        contradictions: Sequence[str] = (),
    ) -> list[str]:
        """The rules that are broken when this is what the database holds at the end."""
        return [
            violation.rule
            for violation in self.violations(*stored, effects=effects, stuck=stuck, contradictions=contradictions)
        ]

    def violations(
        self,
        *stored: Stored,
        effects: Sequence[str] = (),
        stuck: Sequence[Stuck] = (),
        contradictions: Sequence[str] = (),
    ) -> list[Violation]:
        evidence = Evidence(
            effects={"m": tuple(effects)} if effects else {},
            stored=stored,
            stuck=tuple(stuck),
            broken_invariants=tuple(contradictions),
        )
        return judge(Case(tell(self._operations), evidence, LOCK_SECONDS))

    def history(self, *stored: Stored, effects: Sequence[str] = ()) -> History | None:
        """The history of the message, for the model of its life."""
        evidence = Evidence(effects={"m": tuple(effects)} if effects else {}, stored=stored)
        return histories(tell(self._operations), evidence).get("m")

    def pairs(self, *stored: Stored, effects: Mapping[str, Sequence[str]]) -> list[History]:
        """The histories of the session, for the model of its life."""
        evidence = Evidence({message: tuple(attempts) for message, attempts in effects.items()}, stored)
        return list(session_histories.histories(tell(self._operations), evidence))

    def _tell(
        self, verb: str, outcome: str, facts: dict[str, Any], began: float | None = None, took: float = 0.5
    ) -> str:
        began = self._now if began is None else began
        ended = float("inf") if outcome == "never" else began + took
        name = f"{verb}-{len(self._operations)}"
        known = Outcome.UNKNOWN if outcome == "never" else Outcome(outcome)
        self._operations.append(Operation(name, verb, "somebody", "q", began, ended, known, facts))
        self._now = max(self._now, began) + 1
        return name


def waiting(message: str = "m", queue: str | None = "q") -> Stored:
    return Stored(message, "waiting", queue)


def dead(message: str = "m") -> Stored:
    return Stored(message, "dead", "q")


def remembered(last: str, done: int) -> list[State]:
    """The state of the session."""
    return [State("q", "s", done, last)]
