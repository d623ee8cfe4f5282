"""A cluster of Spark on this machine, a master and two workers, which can be killed and started again."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pyspark
import pytest

from pgqueue.spark import java, python
from tests.spark import small

HOME = Path(pyspark.__file__).parent
#: A copy of a task is never begun on the host of the first, so the workers have addresses of their own.
WORKERS = {"worker 1": "127.0.0.1", "worker 2": "127.0.0.2"}
MASTER = "master"


class Daemon:
    """A program of Spark's. It is killed with its children: those of a worker are executors."""

    def __init__(self, kind: str, *arguments: str, ready: str, environment: Mapping[str, str]) -> None:
        self._command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
        self._ready = ready
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Return when it has printed that it is ready."""
        self._process = subprocess.Popen(
            [*self._command, "--webui-port", "0"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )
        assert self._process.stderr is not None
        printed = []
        for line in self._process.stderr:
            printed.append(line)
            if self._ready in line:
                break
        else:
            raise AssertionError("".join(printed))
        self._reader = threading.Thread(target=deque, args=[self._process.stderr, 0])  # a full pipe would halt it
        self._reader.start()

    def kill(self) -> None:
        if self._process is None:
            return
        kill(self._process)
        self._reader.join()
        assert self._process.stderr is not None
        self._process.stderr.close()
        self._process = None


class Cluster:
    """Its daemons by name. A master that is started again recovers applications and workers."""

    def __init__(self, address: str, environment: Mapping[str, str], daemons: Mapping[str, Daemon]) -> None:
        self.address = address
        self.environment = environment
        self.daemons = daemons

    def command(self, configuration: Mapping[str, str], *arguments: str) -> list[str]:
        """The command that runs a program on it."""
        options = [part for name, value in configuration.items() for part in ("--conf", f"{name}={value}")]
        return [str(HOME / "bin" / "spark-submit"), "--master", self.address, *options, *arguments]


@contextmanager
def cluster(directory: Path) -> Iterator[Cluster]:
    """A cluster whose workers have one core each."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        host, port = free.getsockname()
    address = f"spark://{host}:{port}"
    recovery = f"-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryDirectory={directory / 'recovery'}"
    environment = {**_environment(), "SPARK_NO_DAEMONIZE": "1", "SPARK_DAEMON_JAVA_OPTS": f"{small.JVM} {recovery}"}
    work = ("--cores", "1", "--memory", "600m", "--work-dir", str(directory / "work"), address)
    daemons = {
        MASTER: Daemon(
            "master.Master", "--host", host, "--port", str(port),
            ready="I have been elected", environment=environment,
        ),
        **{
            name: Daemon(
                "worker.Worker", "--host", its, *work, ready="Successfully registered", environment=environment
            )
            for name, its in WORKERS.items()
        },
    }  # fmt: skip
    try:
        for daemon in daemons.values():
            daemon.start()
        yield Cluster(address, environment, daemons)
    finally:
        for daemon in daemons.values():
            daemon.kill()


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a process and all that it has started; some of that may end by itself meanwhile."""
    program = psutil.Process(process.pid)
    for each in [program, *program.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait()


def _environment() -> dict[str, str]:
    with pytest.MonkeyPatch.context() as patched:
        java.provide()
        patched.setenv("PYSPARK_PYTHON", python.launcher())
        return dict(os.environ)
