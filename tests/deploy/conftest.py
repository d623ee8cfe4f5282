"""The command line, as its own tests have it."""

from __future__ import annotations

from tests.cli.conftest import client, pgqueue

__all__ = ["client", "pgqueue"]
