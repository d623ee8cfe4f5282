"""The API answers every request as its description promises, the pages answer whatever they are asked; none fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance

from pgqueue import QueueClient
from pgqueue.dashboard import actions, pages
from pgqueue.testing import Database
from tests.dashboard.conftest import Open

#: All pages and forms, but for the stream of events, which does not end.
ROUTES = [route for route in pages.router.routes if isinstance(route, APIRoute) and route.path != "/live"]

#: Values in links and forms: of things that there are, and those that no page writes.
VALUES = st.sampled_from([
    "orders", "events", "nightly", "", " ", "0", "1", "-1", "9" * 30, "1e400", "nan", "\0", "%", "'", "<b>", "día",
    "x" * 300, "//there", "/\\there", "\n", "day", "READY", "2026-11-29T00:00", "infinity", "{", "[", "purge",
]) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)  # fmt: skip


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


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{min(route.methods)} {route.path}")
def test_a_page_answers_whatever_it_is_asked(
    route: APIRoute, shop: QueueClient, opened: Open, database: Database
) -> None:
    site = opened(is_writable=True)
    token = site.get("/api/session").json()["token"]
    method = min(route.methods or {"GET"})
    given_as = "params" if method == "GET" else "data"

    @settings(max_examples=20, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None)
    @given(asked=st.dictionaries(st.sampled_from([*_names(route)]), VALUES), is_ours=st.booleans())
    def ask(asked: dict[str, str], is_ours: bool) -> None:
        answer = site.request(method, route.path, **{given_as: {**asked, "token": token} if is_ours else asked})
        assert answer.status_code < 500, answer.text
        assert answer.is_redirect or answer.headers["content-type"].startswith("text/html")

    ask()
    with database.connect() as connection:
        assert connection.execute("select * from pgqueue.broken_invariants()").fetchall() == []


def _names(route: APIRoute) -> Iterator[str]:
    """The names of all values that a page or a form takes."""
    yield from ("token", "back")
    if route.path in {"/confirm", "/act"}:
        yield from actions.Request.model_fields
    yield from _parameters(route.dependant)


def _parameters(dependant: Dependant) -> Iterator[str]:
    for parameter in (*dependant.query_params, *dependant.body_params):
        yield parameter.alias
    for each in dependant.dependencies:
        yield from _parameters(each)
