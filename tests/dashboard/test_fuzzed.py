"""The API answers every request as its description promises, and never fails."""

from __future__ import annotations

from typing import Any

import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance

from pgqueue import QueueClient
from tests.dashboard.conftest import Open


def test_the_api_keeps_its_description(shop: QueueClient, opened: Open) -> None:
    site = opened(is_writable=True)
    token = site.get("/api/session").json()["token"]
    schema = schemathesis.openapi.from_dict(site.get("/api/openapi.json").json())
    for operation in schema.get_all_operations():
        assert isinstance(operation, Ok)
        _fuzz(operation.ok(), site, token)


def _fuzz(operation: Any, site: TestClient, token: str) -> None:
    @settings(max_examples=8, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None)
    @given(case=operation.as_strategy(), is_known=st.booleans())
    def ask(case: Any, is_known: bool) -> None:
        if is_known:
            known = {"queue": "orders", "name": "orders", "topic": "events"}
            case.query.update({name: value for name, value in known.items() if name in case.query})
        case.headers["X-CSRF-Token"] = token
        case.cookies = {}
        asked = case.as_transport_kwargs(base_url="http://localhost")
        answer = site.request(**{name: value for name, value in asked.items() if name != "cookies"})
        assert answer.status_code < 500, answer.text
        case.validate_response(answer, excluded_checks=[positive_data_acceptance])  # a text may be no JSON

    ask()
