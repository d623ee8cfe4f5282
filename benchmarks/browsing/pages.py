"""``python -m benchmarks.browsing.pages``: the time of the dashboard's pages, and its cost when idle."""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import psycopg
from fastapi.testclient import TestClient

from benchmarks.arguments import whole
from benchmarks.browsing.filling import fill
from benchmarks.report import load, machine
from benchmarks.server import running, version
from pgqueue import schema
from pgqueue.dashboard.app import create_app
from pgqueue.dashboard.figures import UNASKED, Figures
from pgqueue.dashboard.settings import Settings

PAGES = (
    "/",
    "/?order=ready",
    "/?q=queue-9&after=queue-9500",
    "/queue?name=large",
    "/queue?name=queue-4&span=week",
    "/messages?queue=large",
    "/messages?queue=large&state=READY&after=500000",
    "/messages?queue=large&state=LOCKED",
    "/messages?queue=large&state=SCHEDULED",
    "/messages?queue=large&state=DEAD_LETTERED",
    "/messages?queue=large&subject=nowhere",
    "/topics",
    "/topic?name=topic-7",
    "/schedules",
    "/schedules?state=ON_TIME&after=schedule-5",
    "/workers",
    "/audit",
)
ROUNDS = 40


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.browsing.pages", description=__doc__)
    parser.add_argument("--queues", type=whole, default=10_000)
    parser.add_argument("--messages", type=whole, default=5_000_000)
    parser.add_argument("--markdown", type=Path, help="write the table to this file, too")
    options = parser.parse_args()
    busy = load()
    with running() as server:
        schema.migrate(server.dsn())
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            fill(connection, options.queues, options.messages)
        app = create_app(Settings(server.dsn()))
        with TestClient(app, base_url="http://localhost") as site:
            lines = [f"| `{page}` | {median:,.0f} | {last:,.0f} |" for page, median, last in measured(site)]
            figures: Figures = app.state.figures.read_again()
        which = f"{machine()}, PostgreSQL {version(server)}, {options.queues:,} queues, {options.messages:,} messages"
    head = f"{which}, {busy}\n\n| | median, ms | 95th percentile, ms |\n| --- | ---: | ---: |\n"
    pause = figures.cost / UNASKED
    cost = f"The figures of all queues took {figures.cost:,.1f} s: idle, they are read every {pause:,.0f} s."
    text = head + "\n".join(lines) + f"\n\n{cost}"
    print(text)
    if options.markdown:
        options.markdown.write_text(f"# The dashboard\n\n`python -m benchmarks.browsing.pages`\n\n{text}\n")


def measured(site: TestClient) -> list[tuple[str, float, float]]:
    """Each page, with the median and the 95th percentile of the rounds after a first one."""
    found = []
    for page in PAGES:
        site.get(page).raise_for_status()
        rounds = sorted(_milliseconds(site, page) for _ in range(ROUNDS))
        found.append((page, statistics.median(rounds), rounds[int(ROUNDS * 0.95) - 1]))
    return found


def _milliseconds(site: TestClient, page: str) -> float:
    began = time.perf_counter()
    site.get(page).raise_for_status()
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    main()
