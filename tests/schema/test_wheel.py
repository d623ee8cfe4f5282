from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import pgqueue
from pgqueue import schema
from pgqueue.testing import Database

REPOSITORY = Path(__file__).parents[2]

INSTALLED = """
import importlib.metadata, pgqueue, psycopg
print(importlib.metadata.version("pgqueue-tx"), pgqueue.QueueClient.__name__, psycopg.pq.__impl__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    (built,) = directory.glob("*.whl")
    return built


@pytest.mark.core
def test_sql_and_migrations_travel_inside_the_wheel(wheel: Path) -> None:
    travelling = {
        f"pgqueue/_{path.relative_to(REPOSITORY)}"
        for folder in ("sql", "migrations")
        for path in (REPOSITORY / folder).rglob("*")
        if path.suffix in {".sql", ".py"}
    }
    assert travelling
    assert travelling <= set(zipfile.ZipFile(wheel).namelist())


def test_nothing_but_the_package_is_in_the_wheel(wheel: Path) -> None:
    assert {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()} == {
        "pgqueue",
        "pgqueue_tx-0.1.0.dist-info",
    }


def test_the_wheel_migrates_from_any_directory(wheel: Path, tmp_path: Path, empty_database: Database) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    program = "import sys; from pgqueue import schema; print(schema.__file__); print(schema.migrate(sys.argv[1]))"
    outcome = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, empty_database.dsn],
        cwd="/",
        env={"PYTHONPATH": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert outcome.stdout.splitlines() == [str(tmp_path / "pgqueue" / "schema" / "__init__.py"), schema.head()]


def test_a_wheel_is_built_without_what_tests_need(tmp_path: Path) -> None:
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    planned = subprocess.run(["make", "--dry-run", "wheel"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert re.findall(r"^\.ci/set-up (.*)$", planned.stdout, re.MULTILINE) == ["build"]


@pytest.mark.timeout(600)
def test_the_instructions_of_the_readme_install_it(wheel: Path, tmp_path: Path) -> None:
    (block,) = re.findall(r"```sh\nmake wheel\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL)
    venv.create(tmp_path / "empty", with_pip=True)
    (tmp_path / "dist").symlink_to(wheel.parent)
    outcome = subprocess.run(
        ["sh", "-e", "-c", f"{block}\npython -c '{INSTALLED}'"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path / 'empty' / 'bin'}:{os.environ['PATH']}", "PIP_QUIET": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert outcome.stdout.splitlines() == [
        f"pgqueue {pgqueue.__version__}",
        f"{pgqueue.__version__} QueueClient binary",
    ]
