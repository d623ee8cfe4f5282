"""The workloads: W1 to W7, each on a fresh database."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.peers.stage import ActError, Stage, at_a_distance, cpu_seconds

Figures = dict[str, Any]

#: How long each way to a server that is far, in milliseconds.
AWAY = 1.0
#: For how long W4 waits for what has not begun when all is sent.
OVERDUE = 5.0
STATEMENTS = """
select coalesce(sum(calls), 0)::float from pg_stat_statements
 where dbid = (select oid from pg_database where datname = %s) and query !~ 'pg_stat_(statements|database)'"""
COMMITS = "select xact_commit::float from pg_stat_database where datname = %s"


@dataclass(frozen=True)
class Sizes:
    """How much of each; times in seconds."""

    sending: float = 3.0
    #: A drain is sized to last about so long, by a first look at so many messages.
    draining: float = 4.0
    first_look: int = 1_000
    most: int = 300_000
    longest_drain: float = 60.0
    rate: int = 200
    steady: float = 10.0
    warming: float = 1.0
    settling: float = 4.0
    idle: float = 10.0
    #: Many times what a consumer handles before the sender notices.
    window: int = 20_000
    before: float = 10.0
    held: float = 40.0
    bucket: float = 10.0


@dataclass(frozen=True)
class Place:
    """The server, what is known of it, and sizes that a first look has found."""

    server: str
    sizes: Sizes = field(default_factory=Sizes)
    #: The server's first process, where it runs on this machine.
    postmaster: int | None = None
    has_statements: bool = False
    drains: dict[tuple[str, str], int] = field(default_factory=dict)

    def server_cpu(self) -> float:
        return cpu_seconds(self.postmaster) if self.postmaster else float("nan")


Enter = Callable[[], Stage]


@dataclass(frozen=True)
class Workload:
    name: str
    title: str
    unit: str
    #: The figure that the ratios are of.
    figure: str
    run: Callable[[Enter, Place], Figures]
    #: How often; those that are not in ``compared`` take part in the first turns only.
    turns: int = 3
    turns_of_others: int = 3
    #: The systems that take part unless systems are asked for by name; none: all.
    usual: frozenset[str] = frozenset()
    compared: frozenset[str] = frozenset()

    def has_turn(self, system: str, turn: int) -> bool:
        is_compared = not self.compared or system in self.compared
        return turn < (self.turns if is_compared else self.turns_of_others)


def send_batches(enter: Enter, place: Place) -> Figures:
    return _sending(enter, place, "send_batches")


def send_singly(enter: Enter, place: Place) -> Figures:
    return _sending(enter, place, "send_singly")


def _sending(enter: Enter, place: Place, act: str) -> Figures:
    with enter() as stage:
        began = place.server_cpu()
        sent = stage.act(act, seconds=place.sizes.sending)
        server = (place.server_cpu() - began) / sent["count"] * 1e6
    return {"rate": sent["count"] / sent["seconds"], "server_us": server}


def drain(enter: Enter, place: Place) -> Figures:
    return _sized(enter, place, inserts=False)


def drain_with_inserts(enter: Enter, place: Place) -> Figures:
    return _sized(enter, place, inserts=True)


def drain_far(enter: Enter, place: Place) -> Figures:
    with at_a_distance(place.server, AWAY) as distance:
        return _sized(enter, place, inserts=False, distance=distance)


def drain_far_with_inserts(enter: Enter, place: Place) -> Figures:
    with at_a_distance(place.server, AWAY) as distance:
        return _sized(enter, place, inserts=True, distance=distance)


def _sized(enter: Enter, place: Place, *, inserts: bool, distance: Path | None = None) -> Figures:
    """A drain of as many messages as take a while; a first look finds out how many."""
    sizes = place.sizes
    with enter() as stage:
        kind = (stage.system.name, f"{inserts} {distance is not None}")
        if kind in place.drains:
            return _drained(stage, place, place.drains[kind], inserts, distance)
        look = _drained(stage, place, sizes.first_look, inserts, distance)
    enough = int(look["rate"] * sizes.draining) or sizes.most  # nothing: all were handled before the first was seen
    place.drains[kind] = max(sizes.first_look, min(sizes.most, enough))
    with enter() as stage:
        return _drained(stage, place, place.drains[kind], inserts, distance)


def _drained(stage: Stage, place: Place, count: int, inserts: bool, distance: Path | None) -> Figures:
    """From the first message that is handled to the commit of the last completion."""
    stage.act("fill", count=count)
    stage.tidy()
    with stage.consumer(distance, inserts=inserts) as process:
        _until(lambda: stage.handled > 0, process, place.sizes.longest_drain, stage)
        first, began = stage.handled, time.perf_counter()
        client, server = cpu_seconds(process.pid), place.server_cpu()
        deadline = began + place.sizes.longest_drain
        while stage.handled < count and process.poll() is None and time.perf_counter() < deadline:
            time.sleep(0.003)
        while True:  # it is over when a look that finds nothing has begun
            looked = time.perf_counter()
            left = stage.remaining
            if left <= 0 or looked > deadline:
                break
            time.sleep(0.005)
        if process.poll() is not None:
            raise ActError(f"the consumer has ended: {stage.said}")
        done = count - max(left, 0) - first
        figures = {
            "rate": done / (looked - began),
            "client_us": (cpu_seconds(process.pid) - client) / max(done, 1) * 1e6,
            "server_us": (place.server_cpu() - server) / max(done, 1) * 1e6,
            "count": count,
        }
    if left > 0:
        figures["flaw"] = f"{left} of {count} were left after {place.sizes.longest_drain:.0f} s"
    return figures | (_effects(stage, count) if inserts and left <= 0 else {})


def _effects(stage: Stage, count: int) -> Figures:
    """Each message leaves exactly one row."""
    ((rows, numbers),) = stage.connection.execute("select count(*), count(distinct number) from effect").fetchall()
    flaws = [f"{count - numbers} of {count} LOST"] * (numbers < count) + [f"{rows - numbers} DOUBLED"] * (
        rows > numbers
    )
    return {"flaw": ", ".join(flaws)} if flaws else {}


def latency(enter: Enter, place: Place) -> Figures:
    """Milliseconds from when a send is known to be committed until its handler begins; may be negative."""
    sizes = place.sizes
    with enter() as stage:
        got, sent = stage.folder / "got", stage.folder / "sent"
        with stage.consumer(waits=True, times=str(got)) as process:
            warmed = _warm_up(stage, process, place, str(sent))
            stage.act("send_steadily", rate=sizes.rate, seconds=sizes.steady, times=str(sent), waits=True)
            _until(lambda: stage.handled >= warmed + sizes.rate * sizes.steady, process, OVERDUE, stage, must=False)
        begun = dict(json.loads(got.read_text())[warmed:])
        returned = dict(json.loads(sent.read_text()))
    delays = sorted((begun[number] - returned[number]) * 1000 for number in returned if number in begun)
    late = len(returned) - len(delays)
    figures: Figures = {f"p{part}": _percentile(delays, part) for part in (50, 95, 99)}
    return figures | (
        {"flaw": f"{late} of {len(returned)} had not begun {OVERDUE:.0f} s after the last"} if late else {}
    )


def _warm_up(stage: Stage, process: Any, place: Place, times: str) -> int:
    """A consumer that has handled what was sent to it, and has come to rest."""
    count = int(place.sizes.rate * place.sizes.warming)
    stage.act("send_steadily", rate=place.sizes.rate, seconds=place.sizes.warming, times=times, waits=True)
    _until(lambda: stage.handled >= count, process, 20.0, stage)
    time.sleep(min(1.0, place.sizes.settling))
    return stage.handled


def held_snapshot(enter: Enter, place: Place) -> Figures:
    """A closed loop while a transaction holds a snapshot, beside the same loop without; messages/s in each stretch."""
    free, held = (_loop(enter, place, hold=hold) for hold in (False, True))
    return {"rate": held[-1] / max(free[-1], 1e-9), "free": free, "held": held}


def _loop(enter: Enter, place: Place, *, hold: bool) -> list[float]:
    sizes, rates = place.sizes, []
    with enter() as stage, stage.consumer(waits=True) as process:
        loop = {"seconds": sizes.before + sizes.held + 1, "window": sizes.window, "waits": True}
        with stage.acting("keep_full", **loop) as sender, _snapshot(stage) as take:
            _until(lambda: stage.handled > 0, process, 20.0, stage)
            began = time.perf_counter()
            while (elapsed := len(rates) * sizes.bucket) < sizes.before + sizes.held:
                if hold and elapsed >= sizes.before:
                    take()
                first, end = stage.handled, began + elapsed + sizes.bucket
                time.sleep(max(end - time.perf_counter(), 0))
                rates.append((stage.handled - first) / sizes.bucket)
            if process.poll() is not None or sender.poll():
                raise ActError(f"the loop has ended: {stage.said}")
    return rates


@contextmanager
def _snapshot(stage: Stage) -> Iterator[Callable[[], None]]:
    """A transaction that takes a snapshot, and an id, when called."""
    with psycopg.connect(stage.connection.info.dsn, password=stage.connection.info.password or None) as holder:
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

        def take() -> None:
            holder.execute("select count(*), pg_current_xact_id() from effect")

        yield take


def idle(enter: Enter, place: Place) -> Figures:
    """The statements of a consumer that has worked and has nothing left to do."""
    with enter() as stage, stage.consumer(waits=True) as process:
        stage.act("fill", count=place.sizes.rate, waits=True)
        _until(lambda: stage.handled >= place.sizes.rate, process, 20.0, stage)
        time.sleep(place.sizes.settling)
        before = [_asked(stage, place), cpu_seconds(process.pid), place.server_cpu()]
        time.sleep(place.sizes.idle)
        after = [_asked(stage, place), cpu_seconds(process.pid), place.server_cpu()]
    rate, client, server = ((b - a) / place.sizes.idle for a, b in zip(before, after, strict=True))
    return {"rate": max(rate, 0.0), "client_ms": client * 1000, "server_ms": server * 1000}


def _asked(stage: Stage, place: Place) -> float:
    """Statements, or commits where the server does not count statements."""
    with psycopg.connect(place.server) as connection:
        statement = STATEMENTS if place.has_statements else COMMITS
        ((count,),) = connection.execute(statement, [stage.database]).fetchall()
    return float(count)


def _until(is_true: Callable[[], bool], process: Any, seconds: float, stage: Stage, *, must: bool = True) -> None:
    deadline = time.perf_counter() + seconds
    while not is_true():
        if process.poll() is not None or time.perf_counter() > deadline:
            if must:
                raise ActError(f"{stage.handled} messages were handled in {seconds:.0f} s: {stage.said}")
            return
        time.sleep(0.001)


def _percentile(ordered: Sequence[float], part: int) -> float:
    return ordered[min(round(part / 100 * (len(ordered) - 1)), len(ordered) - 1)] if ordered else float("nan")


OURS_AND_FASTEST = frozenset({"raw", "pgqueue", "graphile-worker"})
FAR = frozenset({"raw", "pgqueue", "pgqueue-50", "graphile-worker"})

WORKLOADS: Mapping[str, Workload] = {
    each.name: each
    for each in [
        Workload("W1", "a thousand in each call, one producer", "messages/s", "rate", send_batches),
        Workload("W2", "one in each call and transaction, one producer", "messages/s", "rate", send_singly),
        Workload("W3", "a full queue, handlers that do nothing", "messages/s", "rate", drain),
        Workload("W4", "from a send to its handler at 200/s", "ms", "p50", latency, 5, 1, compared=OURS_AND_FASTEST),
        Workload("W5", "a full queue, one insert a message", "messages/s", "rate", drain_with_inserts),
        Workload(
            "W6", "a closed loop under a held snapshot", "held ÷ not held", "rate", held_snapshot, 1, 1,
            usual=frozenset({"pgqueue", "pgmq", "graphile-worker", "pg-boss"}),
        ),
        Workload("W7", "nothing to do", "statements/s", "rate", idle, 1, 1),
        Workload("W3-far", "W3, 1 ms each way", "messages/s", "rate", drain_far, usual=FAR),
        Workload("W5-far", "W5, 1 ms each way", "messages/s", "rate", drain_far_with_inserts, usual=FAR),
    ]
}  # fmt: skip
