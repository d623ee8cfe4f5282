"""The pages, as they are without JavaScript."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient

from pgqueue import Message, QueueClient
from pgqueue.dashboard.app import create_app
from pgqueue.dashboard.settings import Settings
from pgqueue.encryption import EncryptedBodies
from pgqueue.testing import Database
from tests.dashboard.conftest import Open
from tests.dashboard.scene import HOSTILE

MINUTE = timedelta(minutes=1)
PAGES = [
    "/",
    "/?q=ord&order=ready",
    "/queue?name=orders",
    "/queue?name=orders&span=week",
    "/queue?name=audit-trail",
    "/messages?queue=orders",
    "/messages?queue=orders&state=DEAD_LETTERED",
    "/messages?queue=orders&state=LOCKED",
    "/messages?queue=orders&state=SCHEDULED",
    "/topics",
    "/topic?name=events",
    "/topic?name=returns",
    "/schedules",
    "/schedules?state=FAILING",
    "/workers",
    "/audit",
    "/sign-in",
]


@pytest.mark.core
def test_every_page_is_served_with_its_protection(shop: QueueClient, site: TestClient) -> None:
    for page in PAGES:
        answer = site.get(page)
        assert answer.status_code == 200, (page, answer.text)
        assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
        assert "unsafe" not in answer.headers["Content-Security-Policy"]
        assert answer.headers["Cache-Control"] == "no-store"
        assert HOSTILE not in answer.text
        assert "<script>" not in answer.text
        assert " style=" not in answer.text
    assert html.escape(HOSTILE, quote=False)[:10] in site.get("/messages?queue=orders").text


def test_the_pages_name_another_schema_than_the_default(database: Database) -> None:
    with QueueClient(database.dsn, schema="Jobs of Acme") as client:
        client.migrate()
        client.create_topic("ours", status="SEND_DISABLED")
    for schema, there in ((database.schema, False), ("Jobs of Acme", True)):
        with TestClient(create_app(Settings(database.dsn, schema=schema)), base_url="http://localhost") as site:
            text = site.get("/topics").text
        assert ("· Jobs of Acme" in text, "send disabled" in text) == (there, there)


def test_an_encrypted_body_is_shown_as_such(shop: QueueClient, site: TestClient, database: Database) -> None:
    with QueueClient(database.dsn, interceptors=[EncryptedBodies([EncryptedBodies.generate_key()])]) as client:
        number = client.queue("audit-trail").send(Message("plaintext"))
    for page in ("/messages?queue=audit-trail", f"/message?queue=audit-trail&number={number}"):
        text = site.get(page).text
        assert re.search(r">encrypted<", text), page
        assert "plaintext" not in text


@pytest.mark.core
def test_queues_are_shown_with_their_figures(shop: QueueClient, site: TestClient) -> None:
    page = site.get("/api/queues").json()
    orders = next(queue for queue in page["queues"] if queue["name"] == "orders")
    exact = shop.get_queue_runtime_properties("orders")
    assert (orders["ready"], orders["locked"], orders["scheduled"]) == (exact.ready, exact.locked, exact.scheduled)
    assert orders["dead_letters"] == exact.dead_letters > 0
    assert orders["settled"] > 0
    assert len(orders["waited"]) == len(orders["worked"]) == 3
    mails = next(queue for queue in page["queues"] if queue["name"] == "mails")
    assert mails["expired_locks"] == 1


def test_workers_are_shown_with_their_state(shop: QueueClient, site: TestClient) -> None:
    workers = site.get("/api/workers").json()
    assert [(worker["name"], worker["state"]) for worker in workers] == [
        ("shop-3:18", "FAILING"),
        ("shop-2:4711", "MISSING"),
        ("shop-1:17", "SERVING"),
    ]
    assert workers[0]["failing"] == {"claims": "the server closed the connection"}
    assert (workers[2]["queues"], workers[2]["running"], workers[2]["handled"]) == (["orders", "invoices"], 5, 20_411)
    assert workers[1]["not_seen_for"] >= 180
    page = site.get("/workers").text
    for said in ("not seen for 3m", "claims: the server closed the connection", "5 of 16", "20,411", ">serving<"):
        assert said in page


def test_a_dashboard_without_workers_shows_that_none_runs(client: QueueClient, site: TestClient) -> None:
    assert site.get("/api/workers").json() == []
    assert "No worker runs." in site.get("/workers").text


def test_queues_are_found_ordered_and_paged_by_name(client: QueueClient, site: TestClient) -> None:
    for number in range(120):
        client.create_queue(f"queue-{number:03}")
    client.queue("queue-077").send(Message(1))
    names = []
    after = ""
    while after is not None:
        page = site.get("/api/queues", params={"after": after}).json()
        names += [queue["name"] for queue in page["queues"]]
        after = page["next"]
    assert names == [f"queue-{number:03}" for number in range(120)]
    assert site.get("/api/queues?order=ready").json()["queues"][0]["name"] == "queue-077"
    assert site.get("/api/queues?q=E-01").json()["found"] == 10


def pages_of(site: TestClient, path: str, of: str) -> list[list[str]]:
    """The names on each page."""
    pages = []
    after = ""
    while after is not None:
        page = site.get(f"{path}after={after}").json()
        pages.append([each["name"] for each in page[of]])
        after = page["next"]
    return pages


def test_topics_subscriptions_and_schedules_are_paged_by_name(client: QueueClient, site: TestClient) -> None:
    names = [f"name-{number:03}" for number in range(100)]
    client.create_queue("orders")
    for name in names:
        client.create_topic(name)
        client.create_subscription("name-000", name)
        client.create_schedule(name, queue="orders", message=Message(1), every=timedelta(hours=1))
    assert pages_of(site, "/api/topics?", "topics") == [names[:50], names[50:]]
    assert pages_of(site, "/api/subscriptions?topic=name-000&", "subscriptions") == [names[:50], names[50:]]
    assert pages_of(site, "/api/schedules?state=ON_TIME&", "schedules") == [names[:50], names[50:]]
    for page in ("/topics?", "/topic?name=name-000&amp;", "/schedules?"):
        assert f'rel="next" href="{page}after=name-049"' in site.get(html.unescape(page)).text
        assert 'rel="next"' not in site.get(html.unescape(page) + "after=name-049").text


def test_topics_are_shown_with_the_sums_of_their_subscriptions(shop: QueueClient, site: TestClient) -> None:
    events, returns = site.get("/api/topics").json()["topics"]
    assert (events["name"], events["subscriptions"], events["ready"], events["dead_letters"]) == ("events", 3, 7, 1)
    assert (returns["name"], returns["subscriptions"], returns["ready"], returns["dead_letters"]) == (
        "returns",
        0,
        0,
        0,
    )


def test_subscriptions_are_shown_with_their_filters_and_figures(shop: QueueClient, site: TestClient) -> None:
    archive, billing, large = site.get("/api/subscriptions?topic=events").json()["subscriptions"]
    (everything,) = archive["rules"]
    assert (everything["name"], everything["correlation_filter"], everything["json_path_filter"]) == (
        "$Default",
        None,
        None,
    )
    assert archive["paused_at"] is not None
    (paid,) = billing["rules"]
    assert paid["correlation_filter"] == {"subject": "paid", "application_properties": {"country": "CH"}}
    assert paid["set_properties"] == {"ledger": "general"}
    assert [rule["sql_filter"] for rule in large["rules"]] == [None, "kilograms > 100"]
    assert (large["ready"], large["dead_letters"], large["status"]) == (1, 1, "ACTIVE")
    assert site.get("/api/subscriptions?topic=returns").json()["subscriptions"] == []
    page = html.unescape(site.get("/topic?name=events").text)
    for said in (
        "$Default: $.body.amount > 1000",
        "weighty: kilograms > 100",
        '{"country": "CH"}',
        '{"ledger": "general"}',
        ">paused<",
    ):
        assert said in page


def test_a_subscription_is_shown_without_counts_to_users_without_the_monitor_role(
    shop: QueueClient, database: Database, opened: Open
) -> None:
    role = database.name.replace("-", "_") + "_biller"
    with database.connect() as connection:
        connection.execute(f"create role {role}".encode())
    shop.grant_receive("events/Subscriptions/billing", role)
    site = opened(proxy_header="X-Remote-User", trusted_proxies=("testclient",))
    site.headers["X-Remote-User"] = role
    (topic,) = site.get("/api/topics").json()["topics"]
    assert (topic["name"], topic["subscriptions"], topic["ready"]) == ("events", 3, None)
    (billing,) = site.get("/api/subscriptions?topic=events").json()["subscriptions"]
    assert (billing["name"], billing["ready"], billing["status"]) == ("billing", None, None)
    assert site.get("/api/subscriptions?topic=returns").status_code == 404
    assert "does not exist, or this role may" in site.get("/topic?name=returns").text
    assert site.get("/api/schedules").json()["schedules"] == []
    assert "shown to roles that may monitor" in site.get("/topic?name=events").text
    shop.revoke_receive("events/Subscriptions/billing", role)
    with database.connect() as connection:
        connection.execute(f"drop role {role}".encode())


def test_schedules_are_shown_with_their_state(shop: QueueClient, database: Database, site: TestClient) -> None:
    def states() -> dict[str, str]:
        return {each["name"]: each["state"] for each in site.get("/api/schedules").json()["schedules"]}

    shop.create_schedule("ping", queue="orders", message=Message(1), every=MINUTE)
    due = shop.get_schedule("ping").next_due
    assert due is not None
    shop.create_schedule("once", queue="orders", message=Message(1), every=MINUTE, start=due, end=due + MINUTE / 2)
    with database.connect() as connection:
        connection.execute("select pgqueue.create_schedule('by-sql', 'orders', cron => '0 1 * * *', body => '1')")
    before = {"by-sql": "UNPLANNED", "export": "FAILING", "nightly": "ON_TIME", "stocktaking": "PAUSED"}
    assert states() == {**before, "once": "ON_TIME", "ping": "ON_TIME"}
    database.move_clock(timedelta(seconds=75))
    assert states() == {**before, "once": "LATE", "ping": "LATE"}
    (_, late) = site.get("/api/schedules?state=LATE").json()["schedules"]
    assert (late["name"], late["every"], late["late_by"] > 10) == ("ping", 60, True)
    (failing,) = site.get("/api/schedules?state=FAILING").json()["schedules"]
    assert failing["late_by"] is None
    assert failing["last_error"] in html.unescape(site.get("/schedules").text)
    shop.queue("orders").receive()
    assert states() == {**before, "once": "ENDED", "ping": "ON_TIME"}


def test_messages_are_paged_by_number(client: QueueClient, site: TestClient) -> None:
    client.create_queue("orders")
    numbers = client.queue("orders").send_batch([Message(n) for n in range(120)])
    found = []
    after = 0
    while after is not None:
        page = site.get("/api/messages", params={"queue": "orders", "after": after}).json()
        found += [message["sequence_number"] for message in page["messages"]]
        after = page["next"]
    assert found == numbers
    assert f"after={numbers[49]}" in site.get("/messages?queue=orders").text


def test_a_message_is_shown_whole(shop: QueueClient, site: TestClient) -> None:
    (dead, *_) = shop.queue("orders").dead_letters.peek()
    page = site.get(f"/message?queue=orders&number={dead.sequence_number}").text
    for said in ("CustomerUnknown", "no such customer: 4711", "been a dead letter since", "A-17", "Bern", "Traceback"):
        assert said in page
    document = site.get(f"/api/message?queue=orders&number={dead.sequence_number}").json()
    assert document["is_dead"]
    assert document["deliveries"][0]["type"] == "ValueError"
    assert "lock_token" not in document


def test_a_completed_message_is_shown_from_its_history(shop: QueueClient, site: TestClient) -> None:
    (settled, *_) = shop.queue("orders").history(outcome="COMPLETED")
    document = site.get(f"/api/message?queue=orders&number={settled.sequence_number}").json()
    assert not document["is_there"]
    assert document["history"][0]["outcome"] == "COMPLETED"
    assert "completed" in site.get(f"/message?queue=orders&number={settled.sequence_number}").text


def test_a_settled_message_is_shown_with_its_outcome(client: QueueClient, site: TestClient) -> None:
    client.create_queue("orders", result_retention=timedelta(days=1))
    completed, dead = client.queue("orders").send_batch([Message(1), Message(2)])
    client.queue("orders").receive()[0].complete(result={"total": "<3>"})
    client.queue("orders").receive()[0].dead_letter("Invalid", "no address")
    document = site.get(f"/api/message?queue=orders&number={completed}").json()
    assert (document["outcome"]["state"], document["is_there"]) == ("COMPLETED", False)
    page = site.get(f"/message?queue=orders&number={completed}").text
    assert "is not there any more: COMPLETED" in page
    assert "&#34;total&#34;: &#34;&lt;3&gt;&#34;" in page
    assert "Invalid, no address" in site.get(f"/message?queue=orders&number={dead}").text


def test_a_queue_is_shown_with_the_batches_that_end_there(client: QueueClient, site: TestClient) -> None:
    client.create_queue("orders")
    assert "Batches that end here" not in site.get("/queue?name=orders").text
    batch = client.create_batch(then=Message("then"), to="orders")
    client.queue("orders").send(Message(1), batch=batch)
    (shown,) = site.get("/api/queue?name=orders").json()["batches"]
    assert (shown["id"], shown["pending"], shown["closed_at"]) == (str(batch.id), 1, None)
    page = site.get("/queue?name=orders").text
    assert f'{batch.id}</th><td>open</td><td class="n">1</td>' in page


def test_bytes_and_long_bodies_are_shown(client: QueueClient, site: TestClient) -> None:
    client.create_queue("orders")
    raw, long = client.queue("orders").send_batch([Message(b"\x00\xff"), Message("x" * 300_000)])
    assert site.get(f"/api/message?queue=orders&number={raw}").json()["binary_body"] == "00ff"
    page = site.get(f"/message?queue=orders&number={long}").text
    assert "300,002 characters in all" in page
    assert len(page) < 250_000


@pytest.mark.parametrize(
    "value", ["1" * 5_000, "1" * 400 + ".5", "[" * 3_000 + "]" * 3_000], ids=["int", "float", "depth"]
)
def test_properties_that_python_cannot_read_are_shown(
    client: QueueClient, site: TestClient, database: Database, value: str
) -> None:
    client.create_queue("orders")
    with database.connect() as connection:
        send = "select pgqueue.send('orders', '1', application_properties => %s::jsonb)"
        number = connection.execute(send, [f'{{"odd": {value}}}']).fetchone()[0]  # type: ignore[index]  # it returns one
        connection.commit()
    assert value in site.get(f"/message?queue=orders&number={number}").text
    assert value in site.get(f"/api/message?queue=orders&number={number}").text


def test_a_rule_with_a_number_that_python_cannot_read_is_shown(
    client: QueueClient, site: TestClient, database: Database
) -> None:
    client.create_topic("events")
    client.create_subscription("events", "odd")
    with database.connect() as connection:
        connection.execute("select pgqueue.create_rule('events', 'odd', 'long', set_properties => '{\"odd\": 1e5000}')")
        connection.commit()
    for path in ("/topic?name=events", "/api/subscriptions?topic=events"):
        assert "1" + "0" * 5_000 in site.get(path).text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/queue?name=nope", 404),
        ("/schedules?state=GONE", 422),
        ("/message?queue=orders&number=999", 404),
        ("/messages?queue=nope", 404),
        ("/messages?queue=orders&state=GONE", 422),
        ("/messages?queue=orders&after=-1", 422),
        ("/nowhere", 404),
        ("/queue", 422),
    ],
)
def test_a_missing_page_is_an_error_in_html_and_in_json(
    client: QueueClient, site: TestClient, path: str, status: int
) -> None:
    client.create_queue("orders")
    page = site.get(path)
    assert (page.status_code, page.headers["content-type"]) == (status, "text/html; charset=utf-8")
    answer = site.get(f"/api{path}")
    assert answer.status_code == status
    assert answer.json()["detail"]


def test_another_name_for_this_machine_is_refused(site: TestClient) -> None:
    assert site.get("/", headers={"Host": "evil.example"}).status_code == 400
    assert site.get("/", headers={"Host": "localhost:8420"}).status_code == 200
    assert site.get("/", headers={"Host": "[::1]:8420"}).status_code == 200


def test_assets_come_from_here_with_their_licences(site: TestClient) -> None:
    for asset in ("dashboard.css", "dashboard.js", "icon.svg", "vendor/htmx.min.js", "vendor/uplot.min.js"):
        answer = site.get(f"/static/{asset}")
        assert answer.status_code == 200
        assert "sourceMappingURL" not in answer.text
    for licence in ("htmx", "uplot"):
        assert "ermission" in site.get(f"/static/vendor/{licence}.LICENSE").text
