"""Paths as Spark reads them."""

from __future__ import annotations

import re
from pathlib import Path

#: The characters by which Spark takes a path for a pattern.
IN_PATTERNS = re.compile(r"[*?\[\]{}]")


def check_output(named: str, error: type[Exception]) -> None:
    """Raise the error if Spark would read the path as a pattern."""
    if pattern := IN_PATTERNS.search(named):
        raise error(f"the output {named!r} has a {pattern[0]!r}, which Spark reads as a pattern: name another one")


def url_of(path: Path) -> str:
    """The URL of a path on this machine, without the escapes of `Path.as_uri`: Hadoop does not decode them."""
    return f"file:///{path.as_posix().lstrip('/')}"
