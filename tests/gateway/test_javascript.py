"""The Azure SDK for JavaScript, unmodified, and a client of AMQP that knows nothing of Service Bus."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pgqueue import CorrelationFilter, QueueClient, SqlFilter
from pgqueue.testing import Database
from tests.gateway.serving import Served, key_of

SCRIPTS = Path(__file__).parent / "javascript"


@pytest.fixture(scope="session")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts, with what they need installed as locked."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("needs Node.js and npm")
    folder = tmp_path_factory.mktemp("javascript") / "scripts"
    shutil.copytree(SCRIPTS, folder)
    installed = subprocess.run(
        ["npm", "ci", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True, check=False
    )
    if installed.returncode:
        pytest.skip(f"npm reaches no registry: {installed.stderr[-200:]}")
    return folder


def run(scripts: Path, name: str, **environment: str) -> str:
    ended = subprocess.run(
        ["node", name],
        cwd=scripts,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture
def queues(client: QueueClient) -> QueueClient:
    client.create_queue("orders")
    client.create_queue("steps", requires_session=True)
    client.create_topic("events")
    client.create_subscription("events", "all")
    return client


def test_the_sdk_for_javascript(gateway: Served, queues: QueueClient, scripts: Path) -> None:
    lines = run(scripts, "azure.js", CONNECTION_STRING=gateway.connection_string()).splitlines()
    found: dict[str, Any] = dict(json.loads(line) for line in lines)
    rules = {name: (filter, action) for name, filter, action in found.pop("rules")}
    assert found == {
        "peeked": ["active"] * 4,
        "first": [{"id": 1}, "m", "s", {"n": 5, "f": 1.5, "t": "x", "b": True}, 0],
        "deferred": [0, 255],
        "again": ["abandon", 1, {"why": "later"}],
        "dead": ["dead-letter", "Bad", "no such street", 7],
        "scheduled": 0,
        "nothing": 0,
        "subscribed": [1, 2, 3, 4, 5],
        "unknown": {"error": "MessagingEntityNotFound"},
        "session": ["a", [1, 2], {"done": 2}],
    }
    assert rules["$Default"][0] == {"sqlExpression": "1=1"}
    assert rules["large"][0] == {"sqlExpression": "amount > 100"}
    assert rules["swiss"][0]["subject"] == "paid"
    assert rules["swiss"][1] == {"sqlExpression": "SET seen = 'yes'"}
    stored = {rule.name: rule.filter for rule in queues.list_rules("events", "all")}
    assert stored == {
        "large": SqlFilter("amount > 100"),
        "swiss": CorrelationFilter(subject="paid", application_properties={"country": "CH"}),
    }


def test_a_client_that_knows_nothing_of_service_bus(
    gateway: Served, queues: QueueClient, database: Database, scripts: Path
) -> None:
    host, port = gateway.address
    out = run(scripts, "rhea.js", HOST=host, PORT=str(port), KEY_NAME="shop", KEY=key_of(database, "shop"))
    assert json.loads(out) == [[7, 5, "text"], [7, 5, {"map": [1, 2]}], [7, 5, [0, 255]]]
    assert queues.queue("orders").peek() == []
