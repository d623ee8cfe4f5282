"""Each process of a cluster is killed in turn, while jobs send and a stream drains: everything exactly once."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import IO

from pgqueue import QueueClient
from pgqueue.testing import Database
from tests.patience import eventually
from tests.spark import enduring, small, standalone
from tests.spark.leftovers import is_swept

CONFIGURATION = {
    **small.CONFIGURATION,
    "spark.driver.host": "127.0.0.1",
    "spark.executor.extraJavaOptions": small.JVM,
    "spark.executor.memory": "512m",
    "spark.task.maxFailures": "100",  # a task that is killed with its executor counts as failed
    "spark.deploy.maxExecutorRetries": "-1",
}


def test_each_process_of_a_cluster_is_killed_in_turn(database: Database, tmp_path: Path) -> None:
    with (
        QueueClient(database.dsn) as client,
        database.connect(autocommit=True) as connection,
        standalone.cluster(tmp_path) as cluster,
        (tmp_path / "output").open("w") as output,
    ):
        client.create_queue(enduring.QUEUE)
        connection.execute("create table jobs (job integer primary key)")
        connection.execute("create table drained (number bigint)")

        def drained() -> int:
            [[count]] = connection.execute("select count(*) from drained").fetchall()
            return int(count)

        def go_on(driver: subprocess.Popen[str]) -> None:
            """Two jobs are sent and drained."""
            enough = drained() + 2 * enduring.ROWS
            eventually(lambda: driver.poll() is not None or drained() >= enough, f"{drained()} of {enough}")
            assert driver.poll() is None, (tmp_path / "output").read_text()[-3000:]

        driver = start(cluster, database, tmp_path, output)
        go_on(driver)
        for daemon in cluster.daemons.values():
            daemon.kill()
            go_on(driver)  # the others do
            daemon.start()
            go_on(driver)
        standalone.kill(driver)
        driver = start(cluster, database, tmp_path, output)
        go_on(driver)
        (tmp_path / "enough").touch()
        assert driver.wait(300) == 0, (tmp_path / "output").read_text()[-3000:]

        [[jobs]] = connection.execute("select count(*) from jobs").fetchall()
        numbers = connection.execute("select number from drained order by number").fetchall()
        assert [number for (number,) in numbers] == [*range(jobs * enduring.ROWS)]
        assert client.queue(enduring.QUEUE).peek() == []
        eventually(lambda: is_swept(database), "something is left")


def start(cluster: standalone.Cluster, database: Database, directory: Path, output: IO[str]) -> subprocess.Popen[str]:
    command = cluster.command(CONFIGURATION, enduring.__file__, database.dsn, str(directory))
    return subprocess.Popen(command, stdout=output, stderr=output, text=True, env=cluster.environment)
