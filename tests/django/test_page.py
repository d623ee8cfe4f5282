"""The project of docs/django.md works as it stands: its files are the page's blocks, and its commands are run."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import django
import pytest

from pgqueue import QueueClient
from pgqueue.testing import Database
from tests.docs.snippets import ROOT, Snippet, snippets
from tests.patience import PATIENCE, eventually

PAGE = [each for each in snippets() if each.page == "docs/django.md"]
TESTS = [each for each in snippets() if each.page == "docs/how-to/testing.md" and str(each.title).startswith("shop/")]
PROJECT = {
    "manage.py": """
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
""",
    "shop/__init__.py": "",
    "shop/models.py": """
from django.db import models


class Order(models.Model):
    city = models.TextField()


class Shipment(models.Model):
    order = models.IntegerField()
    announced = models.BooleanField(default=False)
""",
}
SETTINGS = """
from tests.django.settings import *

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SHOP = ["shop", *INSTALLED_APPS]
"""
#: The page shows what is added; the apps that were there before are `...`.
ELLIPSIS = ("    ...,\n", "    *(each for each in SHOP if each != 'pgqueue.django'),\n")
CALL_THE_VIEW = "from types import SimpleNamespace as R; from shop.views import place; place(R(POST={'city': 'Chur'}))"
SHIPMENTS = "select count(*) from shop_shipment where announced = %s"


class Project:
    """A folder with a project, and a database."""

    def __init__(self, folder: Path, database: Database) -> None:
        self._folder, self._database = folder, database
        self._environment = os.environ | {
            "PGQUEUE_DSN": database.direct,
            "DJANGO_SETTINGS_MODULE": "settings",
            "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
        }
        for name, text in PROJECT.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def run(self, *words: str) -> str:
        ran = self._start(*words)
        out, err = ran.communicate(timeout=PATIENCE)
        assert ran.returncode == 0, err
        return out + err

    def run_until(self, words: list[str], condition: Callable[[], bool]) -> None:
        """Run a worker until a condition holds, or until the worker has ended."""
        worker = self._start(*words)
        try:
            eventually(lambda: worker.poll() is not None or condition())
        finally:
            worker.terminate()
            _, err = worker.communicate(timeout=PATIENCE)
        assert worker.returncode == 0, err

    def shipments(self, *, announced: bool) -> int:
        with self._database.connect() as connection:
            return int(connection.execute(SHIPMENTS, [announced]).fetchall()[0][0])

    def shell(self, code: str) -> str:
        return self.run("shell", "-v", "0", "-c", code).strip()

    def _start(self, *words: str) -> subprocess.Popen[str]:
        line = [sys.executable, "manage.py", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(line, cwd=self._folder, env=self._environment, stdout=pipe, stderr=pipe, text=True)


@pytest.fixture
def shop(empty_database: Database, tmp_path: Path) -> Project:
    """The project that the page describes."""
    made = Project(tmp_path, empty_database)
    blocks = [each for each in [*PAGE, *TESTS] if each.language == "python"]
    for name in {str(each.title) for each in blocks}:
        text = "\n".join(each.text for each in blocks if each.title == name)
        if django.VERSION < (6, 0):  # as the page describes
            text = text.replace("from django.tasks import", "from django_tasks import")
        made.write(name, SETTINGS + text.replace(*ELLIPSIS) if name == "settings.py" else text)
    made.run("migrate", "--run-syncdb", "-v", "0")
    return made


def commands() -> Iterator[list[str]]:
    """The commands of ``manage.py`` on the page, in its order."""
    for block in PAGE:
        if block.language == "sh":
            for line in block.text.splitlines():
                if line.startswith("python manage.py "):
                    yield shlex.split(line)[2:]


def test_every_block_is_python_with_a_file_or_commands() -> None:
    assert [each for each in PAGE if not is_known(each)] == []


def is_known(block: Snippet) -> bool:
    return (block.language == "python" and block.title is not None) or block.language == "sh"


def test_the_project_of_the_page_works(shop: Project, empty_database: Database) -> None:
    create_default, create_mail, run_tasks, run_mail, run_handlers, sweep, stats, run_tests = commands()
    with QueueClient(empty_database.dsn) as client:
        client.create_queue("orders")
        shop.shell(CALL_THE_VIEW)
        shop.run_until(run_handlers, lambda: shop.shipments(announced=False) == 1)
        shop.run(*create_default)
        shop.run(*create_mail)
        assert client.get_queue("mail").max_delivery_count == 5
        shop.shell("from shop.announcing import send_off; send_off(7)")
        (now, later) = client.queue("mail").peek(max_messages=2)
        assert (now.priority, later.scheduled_enqueue_time is not None) == (-10, True)
        shop.run_until(run_tasks, lambda: shop.shipments(announced=True) == 1)
        shop.shell("from shop.announcing import send_off; send_off(8)")
        shop.run_until(run_mail, lambda: shop.shipments(announced=True) == 2)
    shop.run(*sweep)
    assert "orders" in shop.run(*stats)
    shop.run("check", "--fail-level", "WARNING")
    assert len(TESTS) == 1
    assert "Ran 2 tests" in shop.run(*run_tests)
