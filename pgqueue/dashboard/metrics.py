"""The figures of all queues in Prometheus' text, whether or not a worker runs."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi import APIRouter, Response

from pgqueue.dashboard import figures as kept
from pgqueue.dashboard import queries
from pgqueue.dashboard.access import Asking, Database, Figures
from pgqueue.model.settings import Depth
from pgqueue.worker.exposition import of_depths
from pgqueue.worker.probes import REMEDY

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

router = APIRouter(include_in_schema=False)


@router.get("/metrics")
def metrics(asking: Asking, database: Database, figures: Figures) -> Response:
    """The depth of every queue, as a worker serves that of its own."""
    with database.transaction(asking) as rows:
        queries.may_monitor(rows)
    try:
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
    except ImportError:
        return Response(REMEDY, HTTPStatus.NOT_IMPLEMENTED, media_type="text/plain")
    registry = CollectorRegistry()
    registry.register(Depths(figures.get()))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


class Depths:
    """The depths of queues among the figures."""

    def __init__(self, found: kept.Figures) -> None:
        self._depths = {
            queue["name"]: Depth(
                queue["ready"],
                queue["locked"],
                queue["scheduled"],
                queue["dead_letters"],
                queue["oldest_age"] or 0.0,
                int(queue["paused_at"] is not None),
            )
            for queue in found.queues
        }

    def collect(self) -> Iterator[Metric]:
        """The metrics, as prometheus-client asks for them."""
        yield from of_depths(self._depths)
