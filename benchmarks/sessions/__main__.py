"""``python -m benchmarks.sessions``: accepting the next session, and throughput by sessions beside a plain queue."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.arguments import whole
from benchmarks.report import load, machine, medians
from benchmarks.server import running, version
from benchmarks.working.scene import AT_ONCE, BODY, Countdown
from pgqueue import Message, Queue, QueueClient, Worker, schema

SESSIONS = (1, 1_000, 100_000)
WITH_MESSAGES = 1_000
#: 0 is a plain queue.
WORKED = (0, 1, 8, 1_000)
TEN = 10

ACCEPT = "select session_id, lock_token from pgqueue.accept_session(%s)"
RELEASE = "select pgqueue.release_session(%s, %s, %s)"
ACCEPT_TEN = """
select array_agg(session_id), array_agg(lock_token), array_agg(10)
  from pgqueue.accept_session(%s, max_sessions => 10)
having count(*) > 0"""
RECEIVE_TEN_OF_EACH = """
select array_agg(sequence_number), array_agg(lock_token)
  from pgqueue.receive_from_session_batch(%s, %s, %s, %s)
having count(*) > 0"""
COMPLETE_ALL = "select pgqueue.complete_batch(%s, %s, %s)"
RELEASE_ALL = "select pgqueue.release_session_batch(%s, %s, %s)"
#: Sessions that have state only, as if their messages were all completed.
WITH_STATE = """
insert into pgqueue.session (queue_id, session_id, state, horizon_taken_at)
select id, 'idle-' || n, '1', pgqueue.clock() from pgqueue.queue, generate_series(1, %s) as n where name = %s"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sessions", description=__doc__)
    parser.add_argument("--runs", type=whole, default=5)
    parser.add_argument("--accepts", type=whole, default=2_000, help="in each queue")
    parser.add_argument("--messages", type=whole, default=5_000, help="worked off in each run")
    parser.add_argument("--markdown", type=Path, help="write the tables to this file, too")
    options = parser.parse_args()
    busy = load()
    with running() as server:
        schema.migrate(server.dsn())
        with QueueClient(server.dsn()) as client, psycopg.connect(server.dsn(), autocommit=True) as connection:
            conditions = f"{machine()}, PostgreSQL {version(server)}, synchronous_commit off, {busy}"
            parts = [
                "## Accepting the next session",
                accepting(client, connection, options.accepts),
                "## Accepting while a snapshot is held",
                under_a_snapshot(server.dsn(), connection, options.accepts),
                "## Raw verbs, ten messages at a time",
                medians(*by_verbs(client, connection, options.runs, options.messages), "messages/s"),
                "## A worker with eight threads, whose handler does nothing",
                medians(*by_worker(client, options.runs, options.messages), "messages/s"),
            ]
    text = "\n\n".join([conditions, *parts]).replace("÷ raw", "÷ plain queue")
    print(text)
    if options.markdown:
        options.markdown.write_text(f"# Sessions\n\n`make bench-flow FLOW=sessions`\n\n{text}\n")


def accepting(client: QueueClient, connection: psycopg.Connection[Any], accepts: int) -> str:
    """The queues in turns, so that all of them meet the same noise."""
    names = {f"accept-{count}": count for count in SESSIONS}
    for name, count in names.items():
        client.create_queue(name, requires_session=True)
        fill(client.queue(name), min(count, WITH_MESSAGES), min(count, WITH_MESSAGES))
        connection.execute(WITH_STATE, [count - min(count, WITH_MESSAGES), name])
    connection.execute("vacuum analyze pgqueue.session, pgqueue.waiting_session, pgqueue.message")
    taken: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(accepts):
        for name, milliseconds in taken.items():
            milliseconds.append(accept_and_release(connection, name))
    return times({f"{count:,} sessions": taken[name] for name, count in names.items()})


def under_a_snapshot(dsn: str, connection: psycopg.Connection[Any], accepts: int) -> str:
    """The dead entries of the index cannot be vacuumed meanwhile; an index scan marks those unseen by all snapshots."""
    name = f"accept-{WITH_MESSAGES}"
    with psycopg.connect(dsn) as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select pg_current_xact_id()")
        taken = [accept_and_release(connection, name) for _ in range(5 * accepts)]
    tenth = len(taken) // 10
    after = f"after {len(taken) - tenth:,} accepts under the snapshot"
    return times({"when the snapshot is new": taken[:tenth], after: taken[-tenth:]})


def accept_and_release(connection: psycopg.Connection[Any], queue: str) -> float:
    """The milliseconds that the accept took."""
    began = time.perf_counter()
    [(session_id, token)] = connection.execute(ACCEPT, [queue]).fetchall()
    took = time.perf_counter() - began
    connection.execute(RELEASE, [queue, session_id, token])
    return took * 1000


def by_verbs(
    client: QueueClient, connection: psycopg.Connection[Any], runs: int, messages: int
) -> tuple[Mapping[str, Sequence[float]], dict[str, str]]:
    ways: dict[str, tuple[int, Callable[[Queue], None]]] = {
        title(sessions): (sessions, drain_session_by_session if sessions else drain) for sessions in WORKED
    }
    ways[f"{title(max(WORKED))}, ten at a time"] = max(WORKED), partial(drain_ten_sessions_at_a_time, connection)
    measured: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(runs):
        for way, (sessions, drained) in ways.items():
            queue = filled(client, sessions, messages)
            began = time.perf_counter()
            drained(queue)
            measured[way].append(messages / (time.perf_counter() - began))
    return measured, dict.fromkeys(measured, title(0))


def by_worker(client: QueueClient, runs: int, messages: int) -> tuple[Mapping[str, Sequence[float]], dict[str, str]]:
    measured: dict[str, list[float]] = {title(sessions): [] for sessions in WORKED}
    for _ in range(runs):
        for sessions in WORKED:
            measured[title(sessions)].append(worked_off(filled(client, sessions, messages), messages))
    return measured, dict.fromkeys(measured, title(0))


def worked_off(queue: Queue, messages: int) -> float:
    """Messages a second, from the first until the worker has stopped."""
    countdown = Countdown(messages, lambda: worker.stop())  # noqa: PLW0108 - there is no worker yet
    worker = Worker(queue, lambda _: countdown.one(), concurrency=8)
    worker.run()
    return countdown.rate()


def filled(client: QueueClient, sessions: int, messages: int) -> Queue:
    name = f"worked-{sessions}"
    client.create_queue(name, requires_session=sessions > 0, exist_ok=True)
    client.purge_queue(name)
    fill(client.queue(name), sessions, messages)
    return client.queue(name)


def fill(queue: Queue, sessions: int, messages: int) -> None:
    """As many messages in each session."""
    batch = [Message(BODY, session_id=f"s{n % sessions}" if sessions else None) for n in range(messages)]
    for start in range(0, messages, AT_ONCE):
        queue.send_batch(batch[start : start + AT_ONCE])


def drain(queue: Queue) -> None:
    while received := queue.receive(max_messages=TEN):
        queue.complete_batch(received)


def drain_session_by_session(queue: Queue) -> None:
    while (session := queue.accept_session()) is not None:
        with session:
            while received := session.receive(max_messages=TEN):
                queue.complete_batch(received)


def drain_ten_sessions_at_a_time(connection: psycopg.Connection[Any], queue: Queue) -> None:
    while (held := connection.execute(ACCEPT_TEN, [queue.name]).fetchone()) is not None:
        session_ids, tokens, _ = held
        while (received := connection.execute(RECEIVE_TEN_OF_EACH, [queue.name, *held]).fetchone()) is not None:
            connection.execute(COMPLETE_ALL, [queue.name, *received])
        connection.execute(RELEASE_ALL, [queue.name, session_ids, tokens])


def title(sessions: int) -> str:
    return f"{sessions:,} sessions" if sessions else "a plain queue"


def times(taken: Mapping[str, Iterable[float]]) -> str:
    lines = ["| | median ms | 99 % within ms |", "| --- | ---: | ---: |"]
    for name, milliseconds in taken.items():
        ordered = sorted(milliseconds)
        lines.append(f"| {name} | {statistics.median(ordered):.2f} | {ordered[int(len(ordered) * 0.99)]:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
