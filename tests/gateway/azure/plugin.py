"""The plugin of pytest for the SDK's tests: the namespace, and the list of tests that cannot pass."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgqueue import Message, QueueClient
from pgqueue.testing.plugin import SharedServer
from tests.gateway.azure import tooling

pytest_plugins = ["pgqueue.testing"]

CANNOT = Path(__file__).with_name("cannot.toml")

# Before pytest imports the conftest.py of the SDK.
tooling.install()


def cannot() -> dict[str, str]:
    """The tests that cannot pass, and why, by ``file::name``."""
    reasons = tomllib.loads(CANNOT.read_text())
    return {f"{file}::{name}": why for why, files in reasons.items() for file, names in files.items() for name in names}


@pytest.fixture(scope="session", autouse=True)
def namespace(database_server: SharedServer) -> Iterator[None]:
    """A database of this process's own, with a gateway."""
    with database_server.database(database_server.template) as database, tooling.namespace(database):
        with QueueClient(database.dsn) as client:  # so that no queue of a test begins with 1
            client.create_queue("first")
            client.queue("first").send_batch([Message(None)] * 10)
            client.delete_queue("first")
        yield


@pytest.fixture(scope="session")
def test_proxy() -> None:
    """Microsoft's recorder of requests: none is needed."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Expect the listed tests to fail. Raises UsageError for those that do not exist."""
    listed, found, files = cannot(), set(), set()
    for item in items:
        file, *_, name = item.nodeid.split("::")
        files.add(file)
        function = name.partition("[")[0]
        for known in (f"{file}::{name}", f"{file}::{function}"):
            found.add(known)
            if known in listed:
                is_run = not listed[known].startswith("not run: ")
                item.add_marker(pytest.mark.xfail(reason=listed[known], strict=True, run=is_run))
    is_whole = not config.option.keyword and not any("::" in argument for argument in config.args)
    unknown = [known for known in listed if known.partition("::")[0] in files and known not in found]
    if is_whole and unknown:
        raise pytest.UsageError(f"{CANNOT.name} lists tests that do not exist: {', '.join(unknown)}")
