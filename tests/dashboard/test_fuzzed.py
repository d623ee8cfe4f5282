"""Whatever is asked of the API: it answers as its description says, and never fails."""

from __future__ import annotations

import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pgqueue import QueueClient
from tests.dashboard.conftest import Open


def test_the_api_keeps_its_description(shop: QueueClient, opened: Open) -> None:
    site = opened(is_writable=True)
    token = site.get("/api/session").json()["token"]
    schema = schemathesis.openapi.from_asgi("/api/openapi.json", site.app)
    for operation in schema.get_all_operations():
        found = operation.ok()
        assert found is not None
        _fuzz(found, site, token)


def _fuzz(operation: schemathesis.schemas.APIOperation, site: TestClient, token: str) -> None:
    @settings(max_examples=15, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None)
    @given(case=operation.as_strategy(), is_known=st.booleans())
    def ask(case: schemathesis.Case, is_known: bool) -> None:
        if is_known:
            case.query.update({name: "orders" for name in ("queue", "name") if name in case.query})
        case.headers["X-CSRF-Token"] = token
        answer = case.call(session=site, base_url="http://localhost")
        assert answer.status_code < 500, answer.text
        case.validate_response(answer)

    ask()
