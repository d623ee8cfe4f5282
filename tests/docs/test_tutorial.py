"""The tutorial and the recipes work as they are written, and so does the service with which the tutorial ends."""

from __future__ import annotations

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
    """What a service runs, with the programs of this environment."""
    programs = "%h/shop/.venv/bin/"
    assert line.startswith(programs)
    return line.removeprefix(programs)


@pytest.mark.parametrize("recipe", ["cron.md", "spark.md", "upgrades.md"])
def test_the_commands_of_a_recipe_work(reader: Reader, recipe: str) -> None:
    reader.read((DOCS / "how-to" / recipe).read_text())


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
    page = (DOCS / "how-to" / "least-privileges.md").read_text()
    for role, name in roles.items():
        page = page.replace(role, name)
    reader.read(page)
