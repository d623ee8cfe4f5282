"""Programs that fork: what the end of one process leaves to the other."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from pgqueue.embedded import Server, wheel_binaries
from pgqueue.testing import Database
from pgqueue.testing.server import short_directory
from tests.patience import PATIENCE, eventually

LEAVES_THE_BLOCK = """
import os, sys
from pgqueue import Message, QueueClient, ReceiveState

client = QueueClient(sys.argv[1])
client.create_queue("q")
client.queue("q").send(Message("a"))
(received,) = client.queue("q").receive()
with client, received.transaction() as transaction:
    transaction.execute("create table effect ()")
    if os.fork() == 0:
        sys.exit(0)
    assert os.wait()[1] == 0
    transaction.execute("select from effect")
assert received.state is ReceiveState.COMPLETED
print("done")
"""

INSTALLS_HANDLERS = """
import contextlib, os, signal, sys
from pgqueue.worker.signals import stopped_by_signals

def forked(number):
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), number)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

first, second = contextlib.ExitStack(), contextlib.ExitStack()
first.enter_context(stopped_by_signals(lambda: None))
worker = signal.getsignal(signal.SIGTERM)

def own(number, frame):
    print("its own", flush=True)
    worker(number, frame)

signal.signal(signal.SIGTERM, own)
print(forked(signal.SIGTERM), flush=True)
signal.signal(signal.SIGTERM, worker)
second.enter_context(stopped_by_signals(lambda: None))
first.close()
second.close()
print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, flush=True)
print(forked(signal.SIGTERM))
"""

STAYS = """
import os, sys
from pgqueue import Message, QueueClient

client = QueueClient(sys.argv[1])
client.create_queue("q")
client.queue("q").send(Message("a"))
(received,) = client.queue("q").receive()
with received.transaction() as transaction:
    print(transaction.info.backend_pid, flush=True)
    if os.fork() == 0:
        print("child", flush=True)
    sys.stdin.read()
    os._exit(0)
"""

FORKS_IN_A_HANDLER = """
import os, signal, sys, threading, time
from pgqueue import Message, QueueClient, Worker

def ended_by(number):
    child = os.fork()
    if child == 0:
        time.sleep(1000)
    os.kill(child, number)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def handler(message):
    all_run.wait()
    print({ended_by(signal.SIGTERM) for _ in range(100 // threads)}, signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    all_run.wait()
    worker.stop()

threads = int(sys.argv[2])
all_run = threading.Barrier(threads)
with QueueClient(sys.argv[1]) as client:
    client.create_queue("q")
    client.queue("q").send_batch([Message("a")] * threads)
    worker = Worker(client.queue("q"), handler, concurrency=threads)
    worker.run()
"""

USES_MULTIPROCESSING = """
import multiprocessing, sys
from datetime import timedelta
from pgqueue import Message, QueueClient

def work(number):
    queue = client.queue("q")
    queue.send(Message(number))
    (received,) = queue.receive(wait=timedelta(minutes=5))  # another process may be taking the only one seen
    received.complete()
    return received.body

client = QueueClient(sys.argv[1])
client.create_queue("q")
assert work(-1) == -1
with multiprocessing.get_context("fork").Pool(3) as processes:
    bodies = processes.map(work, range(60), chunksize=1)
assert sorted(bodies) == list(range(60)), bodies
assert work(60) == 60
print("done")
"""

FORKS_BESIDE_A_SERVER = """
import os, sys
from pathlib import Path
from pgqueue import embedded

print(embedded.start(Path(sys.argv[1])), flush=True)
if os.fork() == 0:
    print("forked", flush=True)
    sys.stdin.readline()
    sys.exit(0)
if sys.argv[2] == "first":
    sys.exit(0)
os.wait()
print("child has ended", flush=True)
sys.stdin.readline()
"""

SESSION = "select from pg_stat_activity where pid = %s"


@contextmanager
def started(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/") as process:
        try:
            yield process
        finally:
            process.kill()


def said(program: str, *arguments: str) -> str:
    with started(program, *arguments) as process:
        return process.communicate(timeout=PATIENCE)[0].strip()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go on\n")
    process.stdin.flush()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_child_that_exits_in_the_block_of_a_transaction_does_not_end_it(database: Database) -> None:
    assert said(LEAVES_THE_BLOCK, database.dsn) == "done"


def test_a_pool_of_processes_inherits_a_client(database: Database) -> None:
    assert said(USES_MULTIPROCESSING, database.dsn) == "done"


@pytest.mark.parametrize("threads", [1, 4])
def test_processes_that_handlers_fork_can_be_ended(database: Database, threads: int) -> None:
    assert said(FORKS_IN_A_HANDLER, database.dsn, str(threads)).splitlines() == ["{-15} set()"] * threads


def test_handlers_of_signals_are_those_before_the_worker_and_those_installed_since() -> None:
    assert said(INSTALLS_HANDLERS).split() == ["its", "own", "-15", "True", "-15"]


def test_a_session_ends_with_its_process_though_a_child_lives_on(database: Database) -> None:
    with started(STAYS, database.dsn) as process, database.connect(autocommit=True) as connection:
        backend = int(line(process))
        assert line(process) == "child"
        process.kill()
        process.wait()
        eventually(lambda: connection.execute(SESSION, [backend]).fetchall() == [])


@pytest.fixture
def directory() -> Iterator[Path]:
    directory = short_directory() / "embedded"
    yield directory
    Server(directory, wheel_binaries()).stop("immediate")
    shutil.rmtree(directory.parent)


def is_up(dsn: str) -> bool:
    try:
        with psycopg.connect(dsn):
            return True
    except psycopg.OperationalError:
        return False


@pytest.mark.parametrize("parent", ["first", "last"])
def test_a_server_is_stopped_by_the_last_of_parent_and_child(directory: Path, parent: str) -> None:
    with started(FORKS_BESIDE_A_SERVER, str(directory), parent) as process:
        dsn = line(process)
        assert line(process) == "forked"
        if parent == "first":
            process.wait()
        assert is_up(dsn)
        tell(process)
        if parent == "last":
            assert line(process) == "child has ended"
            assert is_up(dsn)
            tell(process)
        assert process.stdout is not None
        assert process.stdout.read() == ""  # it ends with the last of them
    assert not is_up(dsn)
