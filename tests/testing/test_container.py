"""The server of a test run in a container, with a stand-in for Docker's engine: tests/testing/docker_engine.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from pgqueue.testing import hosts
from pgqueue.testing.server import SETTINGS, short_directory
from tests.testing.docker_engine import Engine, listening
from tests.testing.test_plugin import CONFTEST, TESTS, run


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server or binaries are named, and testcontainers does not ask where it runs itself."""
    for name in ("PGQUEUE_TEST_DSN", "PGQUEUE_TEST_PG_BIN", "PGQUEUE_TEST_PGBOUNCER", "DOCKER_TLS_VERIFY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TC_HOST", "127.0.0.1")
    monkeypatch.setenv("TESTCONTAINERS_CONNECTION_MODE", "docker_host")


@pytest.fixture
def socket() -> Iterator[Path]:
    directory = short_directory()
    yield directory / "docker.sock"
    (directory / "docker.sock").unlink(missing_ok=True)
    directory.rmdir()


def test_a_test_run_has_one_container_and_leaves_none(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, socket: Path
) -> None:
    engine = Engine()
    with listening(engine, socket) as docker_host:
        monkeypatch.setenv("DOCKER_HOST", docker_host)
        tests = run(pytester, "-n", "2")
        assert not engine.containers
    (container,) = engine.created
    assert container.image == hosts.IMAGE
    assert {f"{name}={value}" for name, value in SETTINGS.items()} <= set(container.command)
    assert ("POST /images/create", 200) in engine.log
    assert ("DELETE /containers/ID", 204) in engine.log
    ((server, _),) = {(server, template) for server, template, _ in tests}
    assert {name: conninfo_to_dict(server)[name] for name in ("host", "user", "dbname")} == {
        "host": "127.0.0.1",
        "user": "test",
        "dbname": "test",
    }
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server, connect_timeout=2)


def test_a_container_that_does_not_start_is_removed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, socket: Path
) -> None:
    engine = Engine(refusal="port is already allocated")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS.format(seen=str(pytester.path / "seen")))
    with listening(engine, socket) as docker_host:
        monkeypatch.setenv("DOCKER_HOST", docker_host)
        outcome = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n", "0", "-x")
        assert not engine.containers
    outcome.assert_outcomes(errors=1)
    outcome.stdout.fnmatch_lines(["*port is already allocated*"])
    assert len(engine.created) == 1


def test_docker_is_used_when_its_engine_answers(monkeypatch: pytest.MonkeyPatch, socket: Path) -> None:
    with listening(Engine(), socket) as docker_host:
        monkeypatch.setenv("DOCKER_HOST", docker_host)
        assert hosts.choose() == "container"
        monkeypatch.setenv("PGQUEUE_TEST_PG_BIN", "/usr/lib/postgresql/18/bin")
        assert hosts.choose() == "throwaway"


def test_without_docker_the_server_is_a_temporary_one(monkeypatch: pytest.MonkeyPatch, socket: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
    assert hosts.choose() == "throwaway"
