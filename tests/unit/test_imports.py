"""What is loaded by whom: a command, and each of Spark's workers, starts in the time that this takes."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["pgqueue", "pgqueue.aio", "pgqueue.cli.app", "pgqueue.spark.source"])
def test_sqlalchemy_is_loaded_only_by_who_uses_it(module: str) -> None:
    program = f"import sys, {module}; print([name for name in ('sqlalchemy', 'alembic') if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "[]"


def test_the_postgresql_driver_of_tasks_is_not_loaded_by_those_who_plan_them() -> None:
    program = "import sys, pgqueue.spark.source; print('adbc_driver_postgresql' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "False"
