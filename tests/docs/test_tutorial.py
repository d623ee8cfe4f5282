"""The tutorial and the recipes work as they are written, and so does the service with which the tutorial ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from configparser import ConfigParser
from functools import partial
from pathlib import Path

import pytest

from pgqueue.testing import Database
from tests.docs.reading import Reader
from tests.patience import eventually

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def reader(database: Database, tmp_path: Path) -> Reader:
    return Reader(tmp_path, PGQUEUE_DSN=database.dsn)


def test_the_tutorial_works_from_top_to_bottom(reader: Reader) -> None:
    reader.read((DOCS / "tutorial.md").read_text())
    unit = ConfigParser(interpolation=None)
    unit.read(reader.folder / "shop-worker.service")
    service = unit["Service"]
    assert reader.run(command(service["ExecStartPre"])) == ""
    reader.start(command(service["ExecStart"]), "…")
    reader.run("python place.py hat")
    eventually(partial(reader.prints, "python look.py", "hat 1\n…"))
    reader.stop()
    assert reader.log.read_text().endswith("SIGTERM: stopping\nstopped\n")


def command(line: str) -> str:
    """The command of a service, with the programs of this environment."""
    programs = "%h/shop/.venv/bin/"
    assert line.startswith(programs)
    return line.removeprefix(programs)


@pytest.mark.parametrize("recipe", ["schedules.md", "spark-pipelines.md", "migrations.md"])
def test_the_commands_of_a_recipe_work(reader: Reader, recipe: str) -> None:
    reader.read((DOCS / recipe).read_text())


@pytest.fixture
def roles(database: Database) -> Iterator[dict[str, str]]:
    """The roles of a page, by names that no other test uses."""
    names = {role: f"{database.name}_{role}" for role in ("shop_web", "shop_worker", "shop_metrics")}
    with database.connect(autocommit=True) as connection:
        for role in names.values():
            connection.execute(f"create role {role}".encode())
        yield names
        for role in names.values():
            connection.execute(f"drop role {role}".encode())


def test_the_commands_about_privileges_work(reader: Reader, roles: dict[str, str]) -> None:
    page = (DOCS / "security.md").read_text()
    for role, name in roles.items():
        page = page.replace(role, name)
    reader.read(page)


#: A table as the other system has it, with a message that is due in it and one that is not.
OTHERS = {
    "from-procrastinate.md": """
        create type procrastinate_job_status as enum ('todo', 'doing', 'succeeded', 'failed');
        create table procrastinate_jobs (
            id bigserial primary key, task_name text, status procrastinate_job_status default 'todo', args jsonb,
            scheduled_at timestamptz, priority integer not null default 0, lock text, queueing_lock text
        );
        insert into procrastinate_jobs (task_name, args) values ('ship', '{"order": 7}');
        insert into procrastinate_jobs (task_name, args, scheduled_at, priority, lock, queueing_lock)
        values ('ship', '{"order": 8}', '2100-01-01', 1000, 'customer-7', 'ship-8');
    """,
    "from-pgmq.md": """
        create schema pgmq
            create table q_orders (msg_id bigserial primary key, vt timestamptz, message jsonb);
        insert into pgmq.q_orders (vt, message) values (now(), '{"order": 7}'), ('2100-01-01', '{"order": 8}');
    """,
}
#: The priority, the session and the unique key of the message that is not due.
KEPT = {"from-procrastinate.md": (-100, "customer-7", "ship-8"), "from-pgmq.md": (0, None, None)}


@pytest.mark.parametrize("recipe", OTHERS)
def test_messages_move_over_from_another_system(database: Database, recipe: str) -> None:
    (move,) = re.findall(r"```sql\n(.*?)```", (DOCS / "how-to" / recipe).read_text(), re.DOTALL)
    with database.connect(autocommit=True) as connection:
        connection.execute(OTHERS[recipe].encode())
        connection.execute("select pgqueue.create_queue('orders')")
        for _ in range(2):  # the second time there is nothing to move
            connection.execute(move)
            assert connection.execute("select body from pgqueue.messages").fetchall() == [({"order": 7},)]
            later = connection.execute(
                "select body, scheduled_enqueue_time = '2100-01-01', priority, session_id, unique_key"
                "  from pgqueue.scheduled_messages left join pgqueue.unique_keys using (queue, sequence_number)"
            )
            assert later.fetchall() == [({"order": 8}, True, *KEPT[recipe])]
