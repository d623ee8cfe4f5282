"""``python -m benchmarks.groups``: a queue whose groups take turns beside a plain one, and by groups and depth."""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.arguments import whole
from benchmarks.report import load, machine
from benchmarks.server import SETTINGS, busy_for, running, version
from pgqueue import QueueClient, schema

TEN, HUNDRED = 10, 100
BESIDE: dict[str, dict[str, Any]] = {
    "a plain queue": {},
    "1,000 groups": {"fair": True},
    "1,000 groups with limits": {"max_concurrent_per_group": 5, "max_receive_rate_per_group": 1000.0},
}
CASES = [(10, 100), (10, 100_000), (1_000, 100), (1_000, 100_000), (10_000, 100_000)]
HOLDERS = {
    "no other transaction": "",
    "one that reads": "select from pgqueue.queue",
    "one that has written": "select pg_current_xact_id()",
}
FILL = """
select count(*)
  from pgqueue.send_batch(%(queue)s, array_fill('1'::jsonb, array[%(count)s::integer]), session_ids => array(
           select 'g' || n %% %(groups)s from generate_series(1, %(count)s::integer) as n))
"""
RECEIVE = "select sequence_number, lock_token, session_id from pgqueue.receive(%s, %s)"
PAGES = f"explain (analyze, buffers, format json) {RECEIVE}"
SEND = "select count(*) from pgqueue.send_batch(%s, array_fill('1'::jsonb, array[%s::integer]), session_ids => %s)"
LOCKED = """
select sequence_number, lock_token, session_id from pgqueue.message
 where lock_token is not null and queue_id = (select id from pgqueue.queue where name = %s)
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.groups", description=__doc__)
    parser.add_argument("--rounds", type=whole, default=400)
    parser.add_argument("--markdown", type=Path, help="write the tables to this file, too")
    options = parser.parse_args()
    busy = load()
    with running({**SETTINGS, "autovacuum": "off"}) as server:
        schema.migrate(server.dsn())
        with QueueClient(server.dsn()) as client:
            parts = [
                f"{machine()}, PostgreSQL {version(server)}, {busy}",
                "## Processor time of the server beside a plain queue, in turns: µs",
                beside(client, server.dsn(), options.rounds),
                f"## Pages that a receive of ten reads, before and after {4 * options.rounds:,} rounds",
                pages(client, server.dsn(), 4 * options.rounds),
            ]
    text = "\n\n".join(parts)
    print(text)
    if options.markdown:
        options.markdown.write_text(f"# Groups\n\n`make bench-flow FLOW=groups`\n\n{text}\n")


@contextmanager
def filled(client: QueueClient, dsn: str, name: str, groups: int, count: int, **settings: Any) -> Iterator[Any]:
    """A connection, and a queue of so many messages in as many groups."""
    client.create_queue(name, **settings)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(FILL, {"queue": name, "count": count, "groups": groups})
        connection.execute("vacuum analyze pgqueue.message, pgqueue.waiting_session")
        yield connection


def beside(client: QueueClient, dsn: str, rounds: int) -> str:
    taken: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in BESIDE}
    with ExitStack() as stack:
        connections = {
            name: stack.enter_context(filled(client, dsn, f"beside-{nth}", 1_000, rounds * (TEN + HUNDRED), **settings))
            for nth, (name, settings) in enumerate(BESIDE.items())
        }
        for nth in range(rounds):
            for queue, (name, connection) in enumerate(connections.items()):
                worked_off(connection, f"beside-{queue}", nth, taken[name])
    plain, *others = {
        name: [statistics.median(each) / 1000 for each in by_verb.values()] for name, by_verb in taken.items()
    }.items()
    return "\n".join(
        [
            f"| | {' | '.join(taken[plain[0]])} |",
            "| --- |" + " ---: |" * 4,
            f"| {plain[0]} | {' | '.join(f'{each:.0f}' for each in plain[1])} |",
            *(f"| {name} | {' | '.join(map(_beside, medians, plain[1]))} |" for name, medians in others),
        ]
    )


def _beside(of_groups: float, of_plain: float) -> str:
    return f"{of_groups:.0f} ({of_groups / of_plain:.1f} times)"


def worked_off(connection: Any, queue: str, nth: int, taken: dict[str, list[float]]) -> None:
    pid = connection.info.backend_pid

    def run(verb: str, statement: str, *arguments: Any) -> list[Any]:
        began = busy_for(pid)
        rows: list[Any] = connection.execute(statement, arguments).fetchall()
        taken[verb].append(busy_for(pid) - began)
        return rows

    run("send", "select pgqueue.send(%s, '1', session_id => %s)", queue, f"g{nth % 1_000}")
    for number, token, _ in run("receive of ten", RECEIVE, queue, TEN):
        run("complete", "select pgqueue.complete(%s, %s, %s)", queue, number, token)
    hundred = run("receive of a hundred", RECEIVE, queue, HUNDRED)
    settle(connection, queue, hundred)


def settle(connection: Any, queue: str, rows: list[Any]) -> None:
    numbers, tokens, _ = map(list, zip(*rows, strict=True))
    connection.execute("select count(*) from pgqueue.complete_batch(%s, %s, %s)", [queue, numbers, tokens])


def pages(client: QueueClient, dsn: str, rounds: int) -> str:
    lines = [
        f"| groups | messages in one of them | {' | '.join(HOLDERS)} |",
        "| ---: | ---: |" + " ---: |" * len(HOLDERS),
    ]
    for groups, depth in CASES:
        read = [
            pages_while(client, dsn, f"{groups}-{depth}-{nth}", (groups, depth), holding, rounds)
            for nth, holding in enumerate(HOLDERS.values())
        ]
        lines.append(f"| {groups:,} | {depth:,} | {' | '.join(read)} |")
    return "\n".join(lines)


def pages_while(client: QueueClient, dsn: str, name: str, case: tuple[int, int], holding: str, rounds: int) -> str:
    """Count the pages of the first and the last receives of ten, while messages are completed and sent again."""
    groups, depth = case
    read = []
    with (
        filled(client, dsn, name, groups, max(2 * groups, 100), fair=True) as connection,
        psycopg.connect(dsn) as holder,
    ):
        connection.execute(FILL, {"queue": name, "count": depth, "groups": 1})
        if holding:
            holder.execute("set transaction isolation level repeatable read")
            holder.execute(holding.encode())
        for nth in range(rounds):
            if nth % 10:
                rows = connection.execute(RECEIVE, [name, TEN]).fetchall()
            else:
                [[[plan]]] = connection.execute(PAGES, [name, TEN]).fetchall()
                read.append(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])
                rows = connection.execute(LOCKED, [name]).fetchall()
            settle(connection, name, rows)
            connection.execute(SEND, [name, len(rows), [group for _, _, group in rows]])
    del read[0]  # of the catalogue
    tenth = max(1, len(read) // 10)
    return f"{statistics.median(read[:tenth]):.0f}, {statistics.median(read[-tenth:]):.0f}"


if __name__ == "__main__":
    main()
