"""The verdict: Spark recomputes the expected result from the file, and compares it with the lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqueue.demo.spark.plan import DELAYS, FLIGHTS, Plan
from pgqueue.demo.verdict import Check

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIGURES = ("count(*) as flights", "count(delay) as departed", "coalesce(sum(delay), 0) as minutes")


def judge(plan: Plan, spark: SparkSession, *, kills: int, replayed: int, reported: int, dead: int) -> list[Check]:
    """Compare results: ``replayed`` dead letters, ``reported`` settled messages, and ``dead`` letters that are left."""
    flights = spark.read.csv(str(plan.source), header=True)
    landed = spark.read.parquet(str(plan.lake))
    delays = landed.selectExpr("inline(array(from_json(body, 'carrier string, origin string, delay long')))")
    wanted = _figures(flights.selectExpr("carrier", "origin", "bigint(nullif(dep_delay, 'NA')) as delay"))
    found = _figures(delays)
    history = spark.read.parquet(str(plan.exported / "history"))
    total, cancelled = flights.count(), flights.where("dep_delay = 'NA'").count()
    settled = {
        (row["queue"], row["outcome"]): row["count"] for row in history.groupBy("queue", "outcome").count().collect()
    }
    redelivered = history.where(f"queue = '{FLIGHTS}' and outcome = 'COMPLETED' and delivery_count > 1").count()
    return [
        Check("rows in the lake", total, landed.count()),
        Check("different flights in the lake", total, landed.select("message_id").distinct().count()),
        Check(
            "carriers at airports with the same flights and minutes", wanted.count(), wanted.intersect(found).count()
        ),
        Check("cancelled flights dead-lettered", cancelled, settled.get((FLIGHTS, "DEAD_LETTERED"), 0)),
        Check("dead letters replayed", cancelled, replayed),
        Check("dead letters left", 0, dead),
        Check("flights completed, by the exported history", total, settled.get((FLIGHTS, "COMPLETED"), 0)),
        Check("delays completed, by the exported history", total, settled.get((DELAYS, "COMPLETED"), 0)),
        Check("settled messages in the report", history.count(), reported),
        Check("workers killed", 1, kills, at_least=True),
        Check("flights delivered again", 1, redelivered, at_least=True),
    ]


def _figures(delays: DataFrame) -> DataFrame:
    from pyspark.sql.functions import expr

    return delays.groupBy("carrier", "origin").agg(*(expr(figure) for figure in FIGURES))
