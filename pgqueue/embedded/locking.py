"""Locks between processes, held on a file: the kernel releases them when the process dies."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on the file; wait until no other process holds it."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # a process forked meanwhile also has the file open


def join(path: Path) -> TextIO:
    """Register as a user, with a shared lock on the file, until it is closed."""
    file = path.open("a")
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


def is_deserted(path: Path) -> bool:
    """Whether no process holds a lock on the file."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
