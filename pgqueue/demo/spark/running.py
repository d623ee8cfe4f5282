"""Runs the pipeline demo from its beginning to its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqueue import QueueClient
from pgqueue.demo.spark.conductor import Conductor, Say
from pgqueue.demo.spark.plan import FLIGHTS, Plan
from pgqueue.demo.spark.verdict import judge
from pgqueue.demo.verdict import Check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(plan: Plan, spark: SparkSession, say: Say) -> list[Check]:
    """Ingest a file; process, drain and export its messages; replay the dead letters; report.

    Raises:
        pgqueue.demo.business.NotOurs: a queue has a name that the demo uses, but was not created by the demo.
        pgqueue.demo.flights.SourceMissing: the package with the flights is not installed.
        pgqueue.demo.spark.plan.Stalled: there was no progress for two minutes.
    """
    with QueueClient(plan.dsn) as client:
        client.migrate()
        conductor = Conductor(plan, spark, client, say)
        conductor.set_the_stage()
        conductor.ingest()
        conductor.ingest()  # which sends nothing
        conductor.work_off(accepts_cancelled=False, kills=1)
        replayed = conductor.replay()
        conductor.work_off(accepts_cancelled=True)
        reported = conductor.report()
        say("verdict: the answers are computed anew from the file")
        dead = client.get_queue_runtime_properties(FLIGHTS).dead_letters
        return judge(plan, spark, kills=conductor.kills, replayed=replayed.sent, reported=reported.messages, dead=dead)
