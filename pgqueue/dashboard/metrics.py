"""The figures of all queues in Prometheus' text, whether or not a worker runs."""

from __future__ import annotations

from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, cast

from fastapi import APIRouter, Response

from pgqueue.dashboard.access import Asking
from pgqueue.model.settings import Depth
from pgqueue.worker.exposition import of_depths
from pgqueue.worker.probes import REMEDY

router = APIRouter(include_in_schema=False)


@router.get("/metrics")
def metrics(asking: Asking) -> Response:
    """The depth of every queue, as a worker serves that of its own."""
    found = asking.figures()
    try:
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
    except ImportError:
        return Response(REMEDY, HTTPStatus.NOT_IMPLEMENTED, media_type="text/plain")
    depths = {
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
    text = generate_latest(cast("Any", SimpleNamespace(collect=lambda: of_depths(depths))))
    return Response(text, media_type=CONTENT_TYPE_LATEST)
