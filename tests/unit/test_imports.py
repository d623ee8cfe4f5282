"""What is loaded by whom: a command, and each of Spark's workers, starts in the time that this takes."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["pgqueue", "pgqueue.aio", "pgqueue.cli.app", "pgqueue.spark.source"])
def test_sqlalchemy_is_loaded_only_by_who_uses_it(module: str) -> None:
    program = f"import sys, {module}; print([name for name in ('sqlalchemy', 'alembic') if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "[]"


def test_names_of_the_library_are_loaded_only_by_who_asks_for_one() -> None:
    program = "import sys, pgqueue.spark.source; print('pgqueue.public' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "False"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import pgqueue; print(pgqueue.QueueClient.__name__, pgqueue.errors.__name__)", "QueueClient pgqueue.errors"),
        ("from pgqueue import *; print(Message(1).body)", "1"),
        ("import pgqueue; print({*pgqueue.__all__} <= {*dir(pgqueue)})", "True"),
        ("import pgqueue; print(getattr(pgqueue, 'nothing', None), hasattr(pgqueue, '__nothing__'))", "None False"),
    ],
)
def test_all_names_are_there_for_who_asks(program: str, said: str) -> None:
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == said


def test_the_postgresql_driver_of_tasks_is_not_loaded_by_those_who_plan_them() -> None:
    program = "import sys, pgqueue.spark.source; print('adbc_driver_postgresql' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "False"
