"""The figures of queues for Prometheus, without a worker."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from pgqueue import Message, QueueClient
from pgqueue.testing import Database
from tests.dashboard.conftest import Open


def gauges(site: TestClient) -> dict[tuple[str, str], float]:
    answer = site.get("/metrics")
    assert answer.status_code == 200, answer.text
    families = text_string_to_metric_families(answer.text)
    return {(sample.name, sample.labels["queue"]): sample.value for family in families for sample in family.samples}


def test_the_depths_of_all_queues_are_served_without_a_worker(shop: QueueClient, site: TestClient) -> None:
    found = gauges(site)
    for exact in shop.list_queues_runtime_properties(exact=True):
        for name in ("ready", "locked", "scheduled", "dead_letters"):
            assert found[f"pgqueue_queue_{name}", exact.name] == getattr(exact, name)
    assert found["pgqueue_queue_paused", "reports"] == 1
    assert found["pgqueue_queue_paused", "orders"] == 0


def test_due_scheduled_messages_are_ready_and_age_without_a_receiver(
    database: Database, client: QueueClient, site: TestClient
) -> None:
    client.create_queue("orders")
    client.queue("orders").schedule(Message(1), at=datetime.now(UTC) + timedelta(minutes=1))
    database.move_clock(timedelta(minutes=29))
    found = gauges(site)
    assert found["pgqueue_queue_ready", "orders"] == 1
    assert found["pgqueue_queue_scheduled", "orders"] == 0
    assert found["pgqueue_queue_oldest_age_seconds", "orders"] >= 27 * 60


def test_a_scrape_that_is_not_signed_in_is_refused(opened: Open) -> None:
    answer = opened(proxy_header="X-Remote-User").get("/metrics")
    assert answer.status_code == 401


def test_without_the_library_the_remedy_is_named(site: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    answer = site.get("/metrics")
    assert (answer.status_code, "pgqueue-tx[otel]" in answer.text) == (501, True)
