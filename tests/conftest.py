"""What all tests share: the fixtures of pgqueue.testing."""

from __future__ import annotations

pytest_plugins = ["pgqueue.testing"]
