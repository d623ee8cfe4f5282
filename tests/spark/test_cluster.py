"""On a cluster, a master and two workers, each a process: speculation, a lost executor, and --py-files."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pgqueue
from pgqueue import QueueClient
from pgqueue.testing import Database
from tests.patience import eventually
from tests.spark import clustered, small, standalone
from tests.spark.leftovers import is_swept

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


def test_speculation_a_lost_executor_and_a_stream_on_a_cluster(database: Database, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "pgqueue"), "zip", Path(pgqueue.__file__).parents[1], "pgqueue")
    with QueueClient(database.dsn) as client, database.connect(autocommit=True) as connection:
        connection.execute("create table tries (form text, name text)")
        connection.execute("create unique index on tries (form) where form = 'orphaned'")
        connection.execute("create table drained (body jsonb)")
        for queue in clustered.WRITES:
            client.create_queue(queue)
        program = ["--py-files", archive, clustered.__file__, database.dsn, str(tmp_path)]
        with standalone.cluster(tmp_path) as cluster:
            command = cluster.command(CONFIGURATION, *program)
            run = subprocess.run(command, capture_output=True, text=True, check=False, env=cluster.environment)
        assert run.returncode == 0, run.stderr[-3000:]

        told = json.loads(run.stdout.splitlines()[-1])
        assert told["master"] == cluster.address
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
