"""The plan of a round, by its seed: which faults at which moments, and which actors where. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from benchmarks.chaos.kinds.acting import Assignment

LOCK_SECONDS = 2.0
#: A queue without receivers, which is purged and dropped while messages are sent to it.
BESIDE = "beside"
#: The kind and the queue of the stream.
SPARK = "spark"

#: Faults of processes, connections, the server and the queues: name, and description for a reader.
FAULTS: Mapping[str, str] = {
    "kill": "SIGKILL of a process",
    "freeze": "SIGSTOP of a process for longer than its locks, then SIGCONT",
    "terminate": "pg_terminate_backend of some sessions",
    "crash": "immediate stop of the server, and a recovery",
    "power": "SIGKILL of the server and all its processes, and a recovery",
    "restart": "fast restart of the server",
    "exhaust": "all connections taken for a while",
    "clock": "the database's clock moved forward or back",
    "snapshot": "a REPEATABLE READ transaction held open",
    "open send": "a transaction that sends, stays open for long, and commits",
    "open claim": "a transaction that has taken messages out of every queue, stays open for long, and rolls back",
    "flood": "hundreds of messages at once, some of which are taken from the middle, and rolled back",
    "rewind": "the sequence of numbers set back by hundreds, as after a restore",
    "wipe": "a queue purged, or dropped and created again, while others send to it",
    "sweep": "a sweep",
}
#: In rounds of their own, with a standby, which has no standby of its own after it is promoted: one in a round.
FAILOVERS: Mapping[str, str] = {
    "failover": "a synchronous standby promoted, the primary killed, or frozen for seconds and then killed",
    "lossy failover": "the same with an asynchronous standby that misses what was committed last",
}
#: Mischief of the actors themselves.
MISCHIEF: Mapping[str, str] = {
    "cancel": "asyncio tasks cancelled at any await",
    "rollback": "transactions rolled back, handlers that raise",
    "savepoints": "settlements and sends below savepoints that are rolled back",
    "two-phase": "two-phase commits, some left prepared",
    "hold": "actors that stand still, their transactions open and their locks running out",
    "settle": "abandon, dead-letter, defer, fault and renew in place of a completion",
}
#: The steps of a person after each; after all others there are none.
MANUAL_STEPS: Mapping[str, str] = {
    **dict.fromkeys(("crash", "power", "restart"), "start the server"),
    **dict.fromkeys(FAILOVERS, "promote the standby"),
    "two-phase": "commit or roll back what is left prepared",
}

#: So many receivers are alone in a flood, each in its own, when it is calm.
FLOODED = 5
#: Those that all sessions feel: one at a time, and not at the end, so that cursors have come far when it is calm.
HEAVY = ("crash", "power", "restart", "exhaust")
OFTEN = {"kill": 3, "freeze": 2, "terminate": 3, "open claim": 3, "open send": 2, "wipe": 3, "flood": 3}


@dataclass(frozen=True)
class Fault:
    """At so many seconds into the round; ``draw``, between 0 and 1, picks the victim and ``size`` how much or long."""

    at: float
    name: str
    draw: float
    size: float


@dataclass(frozen=True)
class Process:
    """Actors that live and die together; visitors are killed when it is calm."""

    name: str
    role: str
    actors: tuple[Assignment, ...]
    clock_error: timedelta = timedelta(0)


@dataclass(frozen=True)
class Plan:
    """``floods`` are queues that are flooded once more when their receivers are alone."""

    seed: int
    seconds: float
    faults: tuple[Fault, ...]
    floods: tuple[str, ...]
    mischief: frozenset[str]
    processes: tuple[Process, ...]
    queues: tuple[str, ...]
    sessions: frozenset[str] = frozenset()
    has_spark: bool = False

    @property
    def plain(self) -> tuple[str, ...]:
        """The queues that have receivers and require no sessions: faults send to these and take from them."""
        return tuple(queue for queue in self.queues if queue != BESIDE and queue not in self.sessions)


def draw(
    seed: int,
    seconds: float,
    receivers: Sequence[str],
    senders: Sequence[str],
    only: Sequence[str] = (),
    *,
    sessions: Sequence[str] = (),
    spark: bool = False,
) -> Plan:
    """A round: its faults, and its processes. ``only`` leaves all other faults out; ``sessions`` are receivers of
    queues that require them, and ``spark`` adds a process with a stream."""
    chance = random.Random(seed)
    wanted = only or (*FAULTS, *MISCHIEF)
    return Plan(
        seed=seed,
        seconds=seconds,
        faults=tuple(
            sorted(
                [
                    *_failover(chance, seconds, [name for name in FAILOVERS if name in wanted]),
                    *_faults(chance, seconds, [name for name in FAULTS if name in wanted]),
                ],
                key=lambda fault: fault.at,
            )
        ),
        floods=tuple(chance.sample(receivers, min(FLOODED, len(receivers)))) if "flood" in wanted else (),
        mischief=frozenset(MISCHIEF).intersection(wanted),
        processes=(*_processes(chance, receivers, senders), *_further(chance, receivers, sessions, spark=spark)),
        queues=(*receivers, *sessions, *([SPARK] if spark else []), BESIDE),
        sessions=frozenset(sessions),
        has_spark=spark,
    )


def _faults(chance: random.Random, seconds: float, names: Sequence[str]) -> Iterator[Fault]:
    """One after the other, about one a second."""
    at = 1.0
    while names and at < seconds:
        heavy_is_over = at > seconds / 2
        ready = [name for name in names if not (heavy_is_over and name in HEAVY)]
        if ready:
            [name] = chance.choices(ready, [OFTEN.get(each, 1) for each in ready])
            yield Fault(round(at, 3), name, chance.random(), chance.random())
            at += 3 if name in HEAVY else 0
        at += chance.uniform(0.3, 1.2)


def _failover(chance: random.Random, seconds: float, names: Sequence[str]) -> Iterator[Fault]:
    for name in names[:1]:
        yield Fault(round(seconds * chance.uniform(0.3, 0.5), 3), name, chance.random(), chance.random())


def _processes(chance: random.Random, receivers: Sequence[str], senders: Sequence[str]) -> Iterator[Process]:
    """At each queue a receiver that stays, the only one when it is calm, and a visitor of any kind."""
    homes = [Assignment(f"{kind} at home", kind, kind, chance.getrandbits(32)) for kind in receivers]
    guests = [
        Assignment(f"{kind} visiting {queue}", kind, queue, chance.getrandbits(32))
        for queue, kind in zip(receivers, chance.choices(_sociable(receivers), k=len(receivers)), strict=True)
        if queue != "at-most-once"
    ]
    yield from _shared_out("home", homes, 4)
    yield from _shared_out("visitor", guests, 3)
    for number, kind in enumerate(senders):
        actor = Assignment(f"{kind} {number}", kind, "any", chance.getrandbits(32))
        yield Process(f"sender{number}", "sender", (actor,))


def _further(
    chance: random.Random, receivers: Sequence[str], sessions: Sequence[str], *, spark: bool
) -> Iterator[Process]:
    """The receivers of sessions, who visit each other, and Spark, which some plain receiver visits."""

    def actor(name: str, kind: str, queue: str) -> Assignment:
        return Assignment(f"{kind} {name}", kind, queue, chance.getrandbits(32))

    yield from _shared_out("sessions", [actor("at home", kind, kind) for kind in sessions], 2, "home")
    guests = [actor(f"visiting {queue}", chance.choice(sessions), queue) for queue in sessions]
    yield from _shared_out("session-visitor", guests, 2, "visitor")
    if spark:
        yield Process(SPARK, "home", (actor("at home", SPARK, SPARK),))
        yield Process(
            "spark-visitor", "visitor", (actor("visiting spark", chance.choice(_sociable(receivers)), SPARK),)
        )


def _sociable(receivers: Sequence[str]) -> Sequence[str]:
    """Kinds that may share a queue: none that loses messages, or leaves some aside that only it takes."""
    return [kind for kind in receivers if kind not in ("at-most-once", "deferring")] or receivers


def _shared_out(name: str, actors: Sequence[Assignment], into: int, role: str | None = None) -> Iterator[Process]:
    for place in range(min(into, len(actors))):
        yield Process(f"{name}{place}", role or name, tuple(actors[place::into]))
