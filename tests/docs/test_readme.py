"""The web applications of the README store an object and send a message, both or none."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.exc import IntegrityError

from pgqueue.testing import Database
from pgqueue.transports import drivers
from tests.docs.snippets import ROOT, snippets
from tests.docs.test_pages import EXAMPLE_DSN

pytestmark = pytest.mark.core


def test_the_web_application_sends_if_and_only_if_it_commits(database: Database) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL))
    code = code.replace(EXAMPLE_DSN.replace("postgresql", "postgresql+psycopg"), database.url)
    names: dict[str, Any] = {}
    exec(compile(code.replace(EXAMPLE_DSN, database.dsn), "README.md", "exec", dont_inherit=True), names)
    with database.connect() as connection:
        connection.execute("create table placed (number int primary key)")
    with names["client"] as client, TestClient(names["app"]) as browser:
        assert browser.post("/orders/8").status_code == 202
        with pytest.raises(IntegrityError):
            browser.post("/orders/8")
        assert [message.body for message in client.queue("orders").peek(max_messages=9)] == [{"order": 8}]
    names["engine"].dispose()


def test_the_view_of_django_is_that_of_its_page_which_is_run() -> None:
    shown = {each.page: each.text for each in snippets() if each.title == "shop/views.py"}
    assert shown["README.md"] == shown["docs/django.md"]


def test_the_readme_names_every_driver_that_fits() -> None:
    page = (ROOT / "README.md").read_text()
    assert "transaction may be that of psycopg 3, psycopg2 or asyncpg" in page
    assert {"psycopg", "psycopg2", "asyncpg"} == drivers.PACKAGES
