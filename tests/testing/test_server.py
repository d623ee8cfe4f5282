from __future__ import annotations

import psycopg
import pytest

from pgqueue.testing import ThrowawayServer


@pytest.mark.core
def test_only_committed_rows_survive_a_kill(throwaway_server: ThrowawayServer) -> None:
    with psycopg.connect(throwaway_server.dsn(), autocommit=True) as connection:
        connection.execute("create table kept (number int)")
        connection.execute("insert into kept values (1)")
        connection.execute("begin")
        connection.execute("insert into kept values (2)")
        throwaway_server.kill()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("commit")
    assert not throwaway_server.is_running()
    throwaway_server.start()
    with psycopg.connect(throwaway_server.dsn()) as connection:
        assert connection.execute("select number from kept").fetchall() == [(1,)]


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_breaks_the_connections_off(throwaway_server: ThrowawayServer, mode: str) -> None:
    with psycopg.connect(throwaway_server.dsn()) as connection:
        throwaway_server.restart(mode)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")
    with psycopg.connect(throwaway_server.dsn()) as connection:
        assert connection.execute("select 1").fetchone() == (1,)


def test_nothing_is_left_of_a_removed_server(throwaway_server: ThrowawayServer) -> None:
    throwaway_server.remove()
    assert not throwaway_server.directory.exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(throwaway_server.dsn())
