"""Shared by all tests: fixtures, the number of processes that run them, and the effort of hypothesis."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

import pgqueue
import pgqueue.aio

pytest_plugins = ["pgqueue.testing", "pytester", "tests.quiet", "tests.selection", "tests.turns"]

# The same examples each time: a change is not refused for what it has not touched. New ones, and more, with
# `--hypothesis-profile=thorough`. No limit of time: neither the database's turn nor the machine's load is the test's.
settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True, derandomize=True
)
settings.register_profile("thorough", parent=settings.get_profile("default"), derandomize=False, max_examples=2_000)
settings.load_profile("default")


# Where the test plugin installs pgqueue in another schema, clients that name none use that one: `make test-schema`.
if os.environ.get("PGQUEUE_TEST_SCHEMA"):
    for client in (pgqueue.QueueClient, pgqueue.aio.QueueClient):
        client.__init__.__kwdefaults__["schema"] = os.environ["PGQUEUE_TEST_SCHEMA"]  # type: ignore[index]


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: many tests wait."""
    return (os.cpu_count() or 1) + 1
