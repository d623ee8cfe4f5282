"""pgqueue: a transactional work queue on PostgreSQL.

Messages live in a table, are received under a lock, and are deleted in the caller's own transaction. :mod:`pgqueue.aio`
has the same names with asynchronous methods.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pgqueue import errors as errors
from pgqueue.model import version as _version

if TYPE_CHECKING:
    from pgqueue.public import *  # noqa: F403

__version__ = _version.VERSION


def __getattr__(name: str) -> Any:
    """Load all public names when the first one is used: a Spark worker process uses none.

    A submodule is not such a name: ``from pgqueue import transports`` calls this before it imports the submodule.
    """
    if name == "__all__" or not (name.startswith("_") or find_spec(f"{__name__}.{name}")):
        public = importlib.import_module("pgqueue.public")
        globals().update({each: getattr(public, each) for each in ("__all__", *public.__all__)})
        if name in globals():
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
