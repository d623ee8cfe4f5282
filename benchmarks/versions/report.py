"""The table of a week: a row for each phase, from one migration to the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.chaos.history import Outcome
from benchmarks.chaos.rules import Violation
from benchmarks.versions.round import VERSIONS, Phase, Played
from benchmarks.versions.rules import is_of_a_migration, is_refused_by_name

TITLES = (
    "phase",
    "versions",
    "messages",
    "lost",
    "doubled",
    "other violations",
    "refused by name",
    "errors by the migration",
    "longest stall",
    "listeners woken after the migration",
)
HEADING = f"| {' | '.join(TITLES)} |\n|{' --- |' * len(TITLES)}"


@dataclass(frozen=True)
class Row:
    phase: str
    versions: str
    messages: int
    lost: int
    doubled: int
    others: int
    refused: int
    errors: int
    stall: float
    woken: str

    def __str__(self) -> str:
        cells = [
            self.phase,
            self.versions,
            f"{self.messages:,}",
            *map(str, (self.lost, self.doubled, self.others)),
            f"{self.refused:,}",
            str(self.errors),
            f"{self.stall:.1f} s",
            self.woken,
        ]
        return f"| {' | '.join(cells)} |"


def rows(played: Played) -> Iterator[Row]:
    """A violation is of the phase in which its message was sent, or its call began; others are of the last one."""
    for phase in played.phases:
        found = [each for each in played.result.violations if _phase_of(each, played) is phase]
        lost = sum("LOST" in each.text for each in found)
        doubled = sum(each.rule == "exactly once" for each in found)
        calls = [each for each in played.week.operations if phase.began <= each.invoked < phase.ended]
        refused = [each for each in calls if is_refused_by_name(each, played.week.migrations)]
        yield Row(
            phase=f"schema {phase.schema}",
            versions=_versions(phase),
            messages=sum(
                phase.began <= send.operation.invoked < phase.ended and send.operation.outcome is Outcome.OK
                for send in played.result.deeds.sends.values()
            ),
            lost=lost,
            doubled=doubled,
            others=len(found) - lost - doubled,
            refused=len(refused),
            errors=sum(is_of_a_migration(each, played.week.migrations) and each not in refused for each in calls),
            stall=_stall(phase, played),
            woken=", ".join(_woken(phase, played)) or "none yet",
        )


def _versions(phase: Phase) -> str:
    running = " and ".join(map(str, VERSIONS[: phase.schema]))
    return f"{running}; {phase.schema + 1} too early" if phase.schema < VERSIONS[-1] else running


def _phase_of(violation: Violation, played: Played) -> Phase:
    send = played.result.deeds.sends.get(violation.message or "")
    began = (
        send.operation.invoked if send else min((each.invoked for each in violation.operations), default=float("inf"))
    )
    return next((each for each in played.phases if began < each.ended), played.phases[-1])


def _stall(phase: Phase, played: Played) -> float:
    """The longest time in which no message was finished."""
    times = [at for at in played.result.evidence.done_at.values() if phase.began_at < at < phase.ended_at]
    ends = [phase.began_at, *sorted(times), phase.ended_at]
    return max(later - earlier for earlier, later in pairwise(ends))


def _woken(phase: Phase, played: Played) -> Sequence[str]:
    return [
        f"{each.version} in {each.seconds * 1000:.0f} ms" if each.seconds is not None else f"{each.version} never"
        for each in played.week.pickups
        if each.after.to == phase.schema
    ]
