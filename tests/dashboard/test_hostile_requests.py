"""Requests that anyone may send to a dashboard that requires signing in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx import Response
from psycopg.types.json import Jsonb

from pgqueue import QueueClient
from pgqueue.dashboard.bodies import LARGEST, LARGEST_UNKNOWN
from pgqueue.dashboard.security import LONGEST_LINE, Lines, TooManyWaiting, hash_password
from pgqueue.dashboard.settings import Settings
from pgqueue.testing import Database
from tests.dashboard.conftest import Open
from tests.dashboard.test_actions import sign_in

RIGHT = {"postgres": hash_password("right"), "ann": hash_password("also right")}


class Pauses(list[float]):
    """Notes how long sign-ins pause, instead of pausing."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def pauses_of(site: Any) -> Pauses:
    pauses = Pauses()
    site.app.state.gate.sleep = pauses
    return pauses


def attempt(site: TestClient, role: str, password: str, address: str) -> int:
    """Sign in through a proxy that has this client."""
    site.headers["X-Forwarded-For"] = address
    return sign_in(site, role, password).status_code


def behind_a_proxy(opened: Open) -> TestClient:
    return opened(accounts=RIGHT, trusted_proxies=("testclient",))


class Endless:
    """A body that never ends; it counts what was read of it."""

    def __init__(self) -> None:
        self.read = 0

    def __iter__(self) -> Iterator[bytes]:
        while self.read < 300_000_000:
            self.read += 65_536
            yield b"x" * 65_536


@pytest.mark.parametrize("path", ["/sign-in", "/act", "/api/actions", "/api/concerned", "/sign-out", "/nowhere"])
def test_a_large_request_is_refused_before_it_is_read(opened: Open, path: str) -> None:
    site = opened(is_writable=True, accounts=RIGHT)
    answer: Response = site.post(path, content=b"x" * (LARGEST_UNKNOWN + 1))
    assert answer.status_code == 413
    assert "at most 65,536 bytes" in answer.text


def test_a_request_without_a_length_is_read_only_up_to_the_bound() -> None:
    endless = iter(body := Endless())
    status = answer_of({"type": "http.request", "body": piece, "more_body": True} for piece in endless)
    assert status == 413
    assert body.read <= LARGEST_UNKNOWN + 65_536


def test_a_form_that_is_broken_off_is_not_handled() -> None:
    """Without its last fields it would mean something else."""
    form = {"type": "http.request", "body": b"role=postgres&password=right&next=", "more_body": True}
    assert answer_of([form, {"type": "http.disconnect"}]) == 400


def answer_of(received: Iterable[Any]) -> int:
    """The status of the answer to a sign-in.

    Straight from the application: a test client would read the body before it sends it.
    """
    from pgqueue.dashboard.app import create_app

    coming = iter(received)
    sent: list[Any] = []

    async def receive() -> Any:
        return next(coming)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/sign-in", "raw_path": b"/sign-in", "query_string": b"",
        "headers": [(b"host", b"localhost")], "scheme": "http", "server": ("localhost", 80), "client": ("::1", 1),
        "root_path": "", "http_version": "1.1",
    }  # fmt: skip
    asyncio.run(create_app(Settings("", accounts=RIGHT))(scope, receive, send))
    return int(sent[0]["status"])


def test_a_signed_in_user_sends_a_message_of_a_million_characters(opened: Open, client: QueueClient) -> None:
    client.create_queue("orders")
    site = opened(is_writable=True, accounts=RIGHT)
    sign_in(site, "postgres", "right")
    token = site.get("/api/session").json()["token"]
    wanted = {"action": "send", "queue": "orders", "body": '"' + "x" * 999_998 + '"'}
    assert site.post("/api/actions", json=wanted, headers={"X-CSRF-Token": token}).status_code == 200
    assert site.post("/act", data={**wanted, "token": token}).status_code == 303
    assert site.post("/act", content=b"x" * (LARGEST + 1)).status_code == 413


def test_ten_sign_ins_of_an_address_wait_and_other_addresses_do_not() -> None:
    async def crowd() -> list[str]:
        lines, answers = Lines(), []
        end = asyncio.Event()

        async def sign_in_from(address: str) -> None:
            try:
                async with lines.turn(address):
                    await end.wait()
                    answers.append(address)
            except TooManyWaiting:
                answers.append("too many")

        async with asyncio.TaskGroup() as group:
            for address in ["ours"] * (LONGEST_LINE + 2) + ["another"]:
                group.create_task(sign_in_from(address))
                await asyncio.sleep(0)
            end.set()
        return answers

    answers = asyncio.run(crowd())
    assert answers[:1] == ["too many"]
    assert sorted(answers) == ["another"] + ["ours"] * (LONGEST_LINE + 1) + ["too many"]


def test_wrong_passwords_of_others_lock_no_user_out(opened: Open) -> None:
    site = behind_a_proxy(opened)
    pauses = pauses_of(site)
    for n in range(60):
        assert attempt(site, "ann", "wrong", f"203.0.113.{n % 3}") == 401
    pauses.clear()
    assert attempt(site, "postgres", "right", "198.51.100.7") == 303
    assert pauses == [0.0]


def test_wrong_passwords_make_the_next_ones_pause_longer_and_longer(opened: Open) -> None:
    site = behind_a_proxy(opened)
    pauses = pauses_of(site)
    for n in range(10):
        attempt(site, f"role {n}", "wrong", "203.0.113.1")
    assert pauses == [0.0] * 5 + [1.0, 2.0, 4.0, 8.0, 8.0]
    pauses.clear()
    assert attempt(site, "postgres", "right", "203.0.113.1") == 303
    assert pauses == [8.0]


def test_wrong_passwords_to_an_account_count_from_wherever_they_come(opened: Open) -> None:
    site = behind_a_proxy(opened)
    pauses = pauses_of(site)
    for n in range(7):
        attempt(site, "postgres", "wrong", f"203.0.113.{n}")
    assert pauses == [0.0] * 5 + [1.0, 2.0]
    assert attempt(site, "postgres", "right", "198.51.100.7") == 303


@pytest.mark.parametrize(
    ("trusted", "forwarded", "client"),
    [
        ((), "203.0.113.1", "testclient"),
        (("testclient",), "203.0.113.1", "203.0.113.1"),
        (("testclient",), "made up, 203.0.113.1", "203.0.113.1"),
        (("testclient", "10.0.0.2"), "made up, 203.0.113.1, 10.0.0.2", "203.0.113.1"),
        (("testclient",), "2001:db8::1:2:3:4", "2001:db8::/64"),
        (("testclient",), "", "testclient"),
        (("testclient",), None, "testclient"),
        (("testclient",), "no:address", "no:address"),
    ],
)
def test_the_address_of_a_client_is_the_one_that_a_trusted_proxy_has_added(
    opened: Open, trusted: tuple[str, ...], forwarded: str | None, client: str
) -> None:
    site: Any = opened(accounts=RIGHT, trusted_proxies=trusted)
    gate, seen = site.app.state.gate, []
    site.app.state.gate.check_token = lambda request, _: seen.append(gate.client(request))
    pauses_of(site)
    site.post(
        "/sign-in",
        data={"role": "ann", "password": "wrong"},
        headers={} if forwarded is None else {"X-Forwarded-For": forwarded},
    )
    assert seen == [client]


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_a_body_that_is_nested_too_deeply_is_refused(opened: Open, client: QueueClient, opening: str) -> None:
    client.create_queue("orders")
    site = opened(is_writable=True)
    token = site.get("/api/session").json()["token"]
    nested, json = opening * 100_000, {"Content-Type": "application/json"}
    closed = "[" * 50_000 + "]" * 50_000
    for body in (nested, closed):
        wanted = {"action": "send", "queue": "orders", "body": body}
        answers = [
            site.post("/act", data={**wanted, "token": token}),
            site.post("/api/actions", json=wanted, headers={"X-CSRF-Token": token}),
            site.post("/api/actions", content=body, headers={**json, "X-CSRF-Token": token}),
            site.post("/api/concerned", content=body, headers=json),
        ]
        for answer in answers:
            assert 400 <= answer.status_code < 500, answer.text[:200]
        assert len(answers[1].json()["detail"].splitlines()) == 1
        for path in ("/api/messages", "/messages"):
            assert site.get(path, params={"queue": "orders", "subject": body[:20_000]}).status_code < 500


def test_a_worker_that_nests_its_errors_deeply_does_not_break_the_page(
    opened: Open, client: QueueClient, database: Database
) -> None:
    client.create_queue("orders")
    deep = '{"loop": ' + "[" * 4000 + "]" * 4000 + "}"
    with database.connect(autocommit=True) as connection:
        connection.execute(
            "select pgqueue.heartbeat(gen_random_uuid(), 'host', 1, '1.0', '{orders}', 8, failing => %s::jsonb)", [deep]
        )
        entry = Jsonb({"a": {"b": {"c": {"d": 1}}}})
        with pytest.raises(Exception, match="nested three levels"):
            connection.execute("select pgqueue.record_action('send', 'orders', 1, %s)", [entry])
    site = opened()
    assert site.get("/workers").status_code == 200
    assert site.get("/api/workers").status_code == 200
