"""The means of disasters: the proxy, memory that is refused, processes whose clock is wrong, dumps of data alone."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from benchmarks.disasters.__main__ import DISASTERS
from benchmarks.disasters.clocking import Clocks
from benchmarks.disasters.exhausting import SPARE, limit
from benchmarks.disasters.load import plan
from benchmarks.disasters.proxy import Proxy
from benchmarks.disasters.restoring import OF_MIGRATE
from pgqueue.embedded.account import Account

DOCS = Path(__file__).parents[2] / "docs"
#: In seconds: for how long nothing arrives where nothing should, and for how long TCP may take to send again.
NOTHING, SOON = 0.3, 30

#: Prints by how many hours the time of day is wrong, four times, and whether the monotonic clock is right.
WRONG = """
import time
from datetime import UTC, datetime
from time import time as imported
before, monotonic = time.time(), time.monotonic()
from benchmarks.chaos.wrong_clock import set_wrong
from datetime import timedelta
set_wrong(timedelta(hours=-7))
for now in (time.time(), imported(), time.time_ns() / 1e9, datetime.now(UTC).timestamp()):
    print(round((now - before) / 3600))
print(time.monotonic() - monotonic < 60, isinstance(datetime(2026, 1, 1), datetime))
"""

#: Asks for ever more memory once it is answered.
HUNGRY = "print(flush=True); input(); kept = [bytearray(2**20) for _ in range(200)]"


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    proxy = Proxy()
    yield proxy
    proxy.stop()


@pytest.fixture
def echo() -> Iterator[socket.socket]:
    """A server that sends back what it gets, with its name, which is its port."""
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_answer_all, args=(server,), daemon=True).start()
    yield server
    server.close()


def _answer_all(server: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = server.accept()
            threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    with suppress(OSError), connection:
        while text := connection.recv(100):
            connection.sendall(text + str(connection.getsockname()[1]).encode())


def _connect(proxy: Proxy) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", proxy.port), timeout=SOON)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def _ask(client: socket.socket, text: bytes) -> bytes:
    client.sendall(text)
    return client.recv(100)


def _is_silent(client: socket.socket) -> bool:
    client.settimeout(NOTHING)
    try:
        client.recv(100)
    except TimeoutError:
        return True
    finally:
        client.settimeout(SOON)
    return False


def test_the_proxy_leads_new_connections_to_another_server(proxy: Proxy, echo: socket.socket) -> None:
    proxy.start(("127.0.0.1", 1))
    with _connect(proxy) as client, suppress(ConnectionError):
        assert client.recv(1) == b"", "no server is there"
    proxy.server = echo.getsockname()
    with _connect(proxy) as client:
        assert _ask(client, b"hello ") == f"hello {echo.getsockname()[1]}".encode()


def test_a_stalled_network_delivers_later(proxy: Proxy, echo: socket.socket) -> None:
    proxy.start(echo.getsockname())
    with _connect(proxy) as client:
        _ask(client, b"before ")
        with proxy.hole(for_good=False):
            client.sendall(b"late ")
            assert _is_silent(client)
        assert client.recv(100).startswith(b"late ")


def test_a_black_hole_confirms_nothing_and_lets_no_one_in_until_it_is_over(proxy: Proxy, echo: socket.socket) -> None:
    proxy.start(echo.getsockname())
    with _connect(proxy) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 500)
        _ask(client, b"before ")
        with proxy.hole(for_good=True):
            with pytest.raises(TimeoutError):
                socket.create_connection(("127.0.0.1", proxy.port), timeout=NOTHING)
            client.sendall(b"lost ")
        with _connect(proxy) as another:
            assert _ask(another, b"after ").startswith(b"after ")
        with pytest.raises(OSError) as raised:  # noqa: PT011 (the number is looked at)
            client.recv(100)
        assert raised.value.errno == errno.ETIMEDOUT


def test_a_limited_process_gets_no_more_memory_than_a_little() -> None:
    command = [sys.executable, "-c", HUNGRY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as hungry:
        assert hungry.stdout is not None
        hungry.stdout.readline()
        limit(Account(), hungry.pid)
        _, errors = hungry.communicate(b"\n")
    assert b"MemoryError" in errors
    assert SPARE < 2**20


def test_a_process_with_a_wrong_clock_sees_it_everywhere_but_in_the_monotonic_one() -> None:
    told = subprocess.run([sys.executable, "-c", WRONG], check=True, capture_output=True, text=True).stdout.split()
    assert told == ["-7"] * 4 + ["True"] * 2


def test_all_clients_have_a_wrong_clock_and_senders_one_that_is_behind() -> None:
    clocks = Clocks()
    changed = clocks.change(plan(1, clocks.name, "token", 1)).processes
    clocks.remove()
    assert all(process.clock_error for process in changed)
    assert all(process.clock_error < timedelta(0) for process in changed if process.role == "sender")


@pytest.mark.core
def test_the_page_about_backups_leaves_out_what_the_disaster_does() -> None:
    assert f"--exclude-table-data='{OF_MIGRATE}'" in (DOCS / "deploying.md").read_text()
    assert "(deploying.md#backups)" in DISASTERS["data alone"].person
