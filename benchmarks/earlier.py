"""The library and the engine as they were at an earlier commit."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
MIGRATE = "import sys; from pgqueue import schema; schema.migrate(sys.argv[1])"


def existing_commit(text: str) -> str:
    """The name of a commit, as an argument of a command."""
    asked = ["git", "rev-parse", "--quiet", "--verify", "--end-of-options", f"{text}^{{commit}}"]
    if subprocess.run(asked, cwd=ROOT, capture_output=True, check=False).returncode:
        raise ArgumentTypeError(f"{text!r} is not a commit of this repository: git log shows them")
    return text


@contextmanager
def library_at(commit: str) -> Iterator[Path]:
    """A folder with the library of that commit, its SQL and its migrations."""
    archive = ["git", "archive", commit, "pgqueue", "sql", "migrations"]
    packed = subprocess.run(archive, cwd=ROOT, capture_output=True, check=True).stdout
    with TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            tar.extractall(folder, filter="data")
        yield Path(folder)


@contextmanager
def engine_at(commit: str) -> Iterator[Callable[[str], None]]:
    """Gives what migrates a database, by its DSN, to the schema of that commit."""
    with library_at(commit) as folder:

        def migrate(dsn: str) -> None:
            subprocess.run([sys.executable, "-c", MIGRATE, dsn], cwd="/", env={"PYTHONPATH": str(folder)}, check=True)

        yield migrate
