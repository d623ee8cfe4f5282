"""The load of a disaster: a queue for each kind of receiver, two of which work on it, and senders to all."""

from __future__ import annotations

import random

from benchmarks.chaos.kinds.acting import Assignment
from benchmarks.chaos.plan import BESIDE, Fault, Plan, Process

QUEUES = ("transaction", "process", "batches", "worker-threads", "worker-tasks", "plain-sql", "stubborn")
SENDERS = ("sender", "sender", "async sender")
#: How a message is settled: each kind of receiver in its way, or all by the sequence number alone.
SETTLEMENTS = ("token", "by-id")
#: Actors that share a process.
TOGETHER = 4


def plan(seed: int, disaster: str, settle: str, before: float) -> Plan:
    """The disaster strikes after so many seconds."""
    chance = random.Random(seed)

    def actor(name: str, kind: str, queue: str) -> Assignment:
        return Assignment(f"{name} at {queue}", kind, queue, chance.getrandbits(32))

    kinds = {queue: "by-id" if settle == "by-id" else queue for queue in QUEUES}
    homes = [actor("home", kind, queue) for queue, kind in kinds.items()]
    visitors = [actor("visitor", chance.choice(list(kinds.values())), queue) for queue in QUEUES]
    return Plan(
        seed=seed,
        seconds=before + 1,
        faults=(Fault(before, disaster, chance.random(), chance.random()),),
        floods=(),
        mischief=frozenset({"rollback"}),
        processes=(
            *_processes("home", homes),
            *_processes("visitor", visitors),
            *(
                Process(f"sender{number}", "sender", (actor(f"sender {number}", kind, "any"),))
                for number, kind in enumerate(SENDERS)
            ),
        ),
        queues=(*QUEUES, BESIDE),
    )


def _processes(role: str, actors: list[Assignment]) -> list[Process]:
    return [
        Process(f"{role}{first}", role, tuple(actors[first : first + TOGETHER]))
        for first in range(0, len(actors), TOGETHER)
    ]
