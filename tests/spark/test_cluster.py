"""On a cluster, a master and two workers, each a process: speculation, a lost executor, and --py-files."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

import pgqueue
from pgqueue import QueueClient
from pgqueue.spark import java, python
from pgqueue.testing import Database
from tests.patience import eventually
from tests.spark import clustered, small
from tests.spark.leftovers import is_swept

HOME = Path(pyspark.__file__).parent

# A copy of a task is never begun on the host of the first, so the workers have addresses of their own.
HOSTS = ("127.0.0.1", "127.0.0.2")

CONFIGURATION = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": small.JVM,
    "spark.executor.extraJavaOptions": small.JVM,
    "spark.executor.memory": "512m",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1",
    "spark.speculation.minTaskRuntime": "100ms",
}


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    with pytest.MonkeyPatch.context() as patched:
        java.provide()
        patched.setenv("PYSPARK_PYTHON", python.launcher())
        patched.setenv("SPARK_NO_DAEMONIZE", "1")
        return dict(os.environ)


@pytest.fixture(scope="module")
def master(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a master with two workers, of one core each."""
    work = str(tmp_path_factory.mktemp("work"))
    with ExitStack() as processes:
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"spark://127.0.0.1:{free.getsockname()[1]}"
        host, port = address.removeprefix("spark://").split(":")
        processes.enter_context(
            running(
                "master.Master", "--host", host, "--port", port, ready="I have been elected", environment=environment
            )
        )
        for host in HOSTS:
            processes.enter_context(
                running(
                    "worker.Worker", "--host", host, "--cores", "1", "--memory", "600m", "--work-dir", work, address,
                    ready="Successfully registered", environment=environment,
                )
            )  # fmt: skip
        yield address


@contextmanager
def running(kind: str, *arguments: str, ready: str, environment: Mapping[str, str]) -> Iterator[None]:
    """A daemon of Spark's, once it has printed that it is ready."""
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments, "--webui-port", "0"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "SPARK_DAEMON_JAVA_OPTS": small.JVM},
    )
    assert process.stderr is not None
    listening = threading.Thread(target=deque, args=[process.stderr, 0])  # or it would wait to be heard
    try:
        said = []
        for line in process.stderr:
            said.append(line)
            if ready in line:
                break
        else:
            raise AssertionError("".join(said))
        listening.start()
        yield
    finally:
        process.kill()
        process.wait()
        if listening.ident is not None:
            listening.join()
        process.stderr.close()


def test_speculation_a_lost_executor_and_a_stream_on_a_cluster(
    master: str, environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    archive = shutil.make_archive(str(tmp_path / "pgqueue"), "zip", Path(pgqueue.__file__).parents[1], "pgqueue")
    with QueueClient(database.dsn) as client, database.connect(autocommit=True) as connection:
        connection.execute("create table tries (form text, name text)")
        connection.execute("create unique index on tries (form) where form = 'orphaned'")
        connection.execute("create table drained (body jsonb)")
        for queue in clustered.WRITES:
            client.create_queue(queue)
        command = [str(HOME / "bin" / "spark-submit"), "--master", master, "--py-files", archive]
        for name, value in CONFIGURATION.items():
            command += ["--conf", f"{name}={value}"]
        run = subprocess.run(
            [*command, clustered.__file__, database.dsn, str(tmp_path)],
            capture_output=True, text=True, check=False, env=environment,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr[-3000:]

        told = json.loads(run.stdout.splitlines()[-1])
        assert told["master"] == master
        assert all(re.search(r"pgqueue\.zip", place) for place in told["pgqueue"])

        tries = dict(connection.execute("select form, count(*) from tries group by form").fetchall())
        assert tries == {"copied": 2, "copied-by-task": 2, "orphaned": 1}
        everything = sorted(range(clustered.ROWS))
        drained = connection.execute("select (body ->> 'id')::int from drained").fetchall()
        assert sorted(number for (number,) in drained) == everything
        for queue in ("copied-by-task", "orphaned"):
            sent = connection.execute("select (body ->> 'id')::int from pgqueue.messages where queue = %s", [queue])
            assert sorted(number for (number,) in sent.fetchall()) == everything
        assert client.queue("copied").peek() == []
        eventually(lambda: is_swept(database), "something is left")
