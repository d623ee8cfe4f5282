"""The modules that a command, or a worker of Spark, loads: these imports decide how fast it starts."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import pgqueue

#: Imports each module of its arguments, in a fork that has loaded third-party modules, and nothing of pgqueue.
FIRST_OF_ALL = """
import gc, os, sys, traceback
import alembic.command, argon2, cronsim, django.contrib.admin, jinja2, opentelemetry, prometheus_client, psycopg_pool
import pyarrow.dataset, pyarrow.fs, pyspark.sql, pytest, rich.progress, sqlalchemy.ext.asyncio, sqlalchemy.orm
import starlette.applications, tenacity, typer, uvicorn

def set_up_django():
    import django.conf
    apps = ["admin", "auth", "contenttypes"]
    django.conf.settings.configure(INSTALLED_APPS=[*map("django.contrib.".__add__, apps), "pgqueue.django"])
    django.setup()

gc.freeze()
assert not any(name.partition(".")[0] == "pgqueue" for name in sys.modules)
for module in sys.argv[1:]:
    if os.fork() == 0:
        try:
            if module.startswith("pgqueue.django."):
                set_up_django()
            __import__(module)
        except BaseException:
            print(module, traceback.format_exc(), flush=True)
        os._exit(0)
    os.wait()
"""


def modules() -> list[str]:
    return ["pgqueue", *(module.name for module in pkgutil.walk_packages(pgqueue.__path__, "pgqueue."))]


@pytest.mark.parametrize(
    "module", ["pgqueue", "pgqueue.aio", "pgqueue.cli.app", "pgqueue.schema", "pgqueue.spark.source"]
)
def test_sqlalchemy_is_loaded_only_when_it_is_used(module: str) -> None:
    program = f"import sys, {module}; print([name for name in ('sqlalchemy', 'alembic') if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "[]"


def test_encryption_without_its_extra_names_it() -> None:
    program = "import sys; sys.modules['cryptography'] = None; import pgqueue.encryption"
    said = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, check=False).stderr
    assert said.endswith("ModuleNotFoundError: encryption needs the extra: pip install 'pgqueue-tx[encryption]'\n")


@pytest.mark.core
def test_names_of_the_library_are_loaded_only_when_one_is_accessed() -> None:
    program = "import sys, pgqueue.spark.source; print('pgqueue.public' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "False"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import pgqueue; print(pgqueue.QueueClient.__name__, pgqueue.errors.__name__)", "QueueClient pgqueue.errors"),
        ("from pgqueue import *; print(Message(1).body)", "1"),
        ("import pgqueue; print({*pgqueue.__all__} <= {*dir(pgqueue)})", "True"),
        ("import pgqueue; print(getattr(pgqueue, 'nothing', None), hasattr(pgqueue, '__nothing__'))", "None False"),
        (
            "import pgqueue.client; print(pgqueue.QueueClient.__module__, pgqueue.client.__name__)",
            "pgqueue.client " * 2,
        ),
    ],
)
def test_all_names_can_be_accessed(program: str, said: str) -> None:
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == said.strip()


@pytest.mark.parametrize("half", [0, 1])
def test_every_module_can_be_the_first_that_is_imported(half: int) -> None:
    command = [sys.executable, "-c", FIRST_OF_ALL, *modules()[half::2]]
    assert subprocess.check_output(command, text=True) == ""


def test_the_postgresql_driver_of_tasks_is_not_loaded_where_they_are_planned() -> None:
    program = "import sys, pgqueue.spark.source; print('adbc_driver_postgresql' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "False"
