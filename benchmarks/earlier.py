"""The library and the engine as they were at an earlier commit."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

MIGRATE = "import sys; from pgqueue import schema; schema.migrate(sys.argv[1])"


@contextmanager
def library_at(commit: str) -> Iterator[Path]:
    """A folder with the library of that commit, its SQL and its migrations."""
    archive = ["git", "archive", commit, "pgqueue", "sql", "migrations"]
    packed = subprocess.run(archive, cwd=Path(__file__).parents[1], capture_output=True, check=True).stdout
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
