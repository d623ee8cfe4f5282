"""The admin pages of messages: of every state, page by page, whole, and to look at only."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client

from pgqueue import Message, Queue, QueueClient
from pgqueue.dashboard.queries import PAGE

LIST = "/admin/pgqueue/queuedmessage/"


@pytest.fixture
def orders(client: QueueClient) -> Queue:
    return client.queue("orders")


@pytest.fixture
def clerk(client: QueueClient) -> Client:
    """The browser of a user who may view messages, and nothing else."""
    user = User.objects.create_user("clerk", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_queuedmessage"))
    browser = Client(headers={"host": "localhost"})
    browser.force_login(user)
    return browser


def shown(browser: Client, **query: Any) -> list[int]:
    """The numbers of the messages on a page."""
    page = browser.get(LIST, {"queue": "orders", **query})
    assert page.status_code == 200
    return [int(number) for number in re.findall(r'">(\d+)</a></th>', page.content.decode())]


def one_of_each(orders: Queue) -> dict[str, int]:
    found = {}
    for state in ("DEAD_LETTERED", "DEFERRED", "LOCKED", "READY"):
        found[state] = int(orders.send(Message({"state": state}, subject=state, message_id=f"id-{state}")))
    dead, deferred, _ = orders.receive(max_messages=3)
    dead.dead_letter("Unpayable", "no <i>money</i>")
    deferred.defer()
    later = Message(1, scheduled_enqueue_time=orders.peek()[0].enqueued_time + timedelta(days=1))
    return {**found, "SCHEDULED": int(orders.send(later))}


def test_messages_of_each_state_are_listed(orders: Queue, clerk: Client) -> None:
    numbers = one_of_each(orders)
    for state, number in numbers.items():
        assert shown(clerk, state=state) == [number]
    assert shown(clerk) == sorted(number for state, number in numbers.items() if state != "DEAD_LETTERED")
    assert shown(clerk, subject="READY") == [numbers["READY"]]
    assert shown(clerk, message_id="id-LOCKED") == [numbers["LOCKED"]]
    assert shown(clerk, state="DEAD_LETTERED", reason="Unpayable") == [numbers["DEAD_LETTERED"]]


def test_messages_are_not_shown_as_notices_to_the_user(orders: Queue, clerk: Client) -> None:
    orders.send(Message("a secret"))
    assert "messagelist" not in clerk.get(LIST, {"queue": "orders"}).content.decode()


def test_each_page_begins_after_the_last_one(orders: Queue, clerk: Client) -> None:
    numbers = list(map(int, orders.send_batch([Message(each) for each in range(PAGE + 3)])))
    assert shown(clerk) == numbers[:PAGE]
    first = clerk.get(LIST, {"queue": "orders"}).content.decode()
    (following,) = re.findall(r'rel="next" href="(\?[^"]+)"', first)
    second = clerk.get(LIST + following.replace("&amp;", "&")).content.decode()
    assert re.findall(r'">(\d+)</a></th>', second) == [str(each) for each in numbers[PAGE:]]
    assert 'rel="next"' not in second


def test_a_page_of_a_long_queue_reads_a_bounded_number_of_rows(orders: Queue, clerk: Client) -> None:
    numbers = orders.send_batch([Message(each) for each in range(12_000)])
    with connection.cursor() as cursor:
        cursor.execute("analyze pgqueue.message")
    for after, most in ((0, 5_200), (int(numbers[-30]), 200)):
        with transaction.atomic():
            before = rows_read()
            assert shown(clerk, after=after)
            assert rows_read() - before <= most


def rows_read() -> int:
    """How many rows of messages this transaction has read, by an index or by reading all."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select coalesce(sum(seq_tup_read), 0) + coalesce(sum(idx_tup_fetch), 0)"
            "  from pg_stat_xact_user_tables where schemaname = 'pgqueue' and relname ~ '^message'"
        )
        (read,) = cursor.fetchone()
    return int(read)


def test_a_message_is_shown_whole_and_escaped(orders: Queue, clerk: Client) -> None:
    number = orders.send(Message({"to": "<script>alert(1)</script>", "n": [1]}, subject="<b>paid</b>"))
    (received,) = orders.receive()
    received.abandon(delay=timedelta(hours=1), error=ValueError("no <i>money</i>"))
    page = clerk.get(f"{LIST}orders {number}/change/").content.decode()
    assert "rests after a delivery" in page
    assert "{\n    &quot;n&quot;: [\n        1\n    ]," in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "&lt;b&gt;paid&lt;/b&gt;" in page
    assert "no &lt;i&gt;money&lt;/i&gt;" in page
    assert str(received.lock_token) not in page
    listed = clerk.get(LIST, {"queue": "orders"}).content.decode()
    assert "<script>alert" not in listed
    assert "&lt;b&gt;paid&lt;/b&gt;" in listed


def test_links_of_a_list_lead_to_messages(client: QueueClient, clerk: Client) -> None:
    client.create_queue("shop/orders_eu")
    for body in ({"a": 1}, b"\0\xff"):
        client.queue("shop/orders_eu").send(Message(body))
    page = clerk.get(LIST, {"queue": "shop/orders_eu"}).content.decode()
    links = re.findall(r'<th scope="row"><a href="([^"]+)"', page)
    texts = [clerk.get(link).content.decode() for link in links]
    assert ["&quot;a&quot;: 1" in texts[0], "00ff" in texts[1]] == [True, True]


def test_dead_and_settled_messages_are_shown(client: QueueClient, orders: Queue, clerk: Client) -> None:
    client.update_queue("orders", retain_history=timedelta(days=1))
    number = one_of_each(orders)["DEAD_LETTERED"]
    assert "no &lt;i&gt;money&lt;/i&gt;" in clerk.get(f"{LIST}orders {number}/change/").content.decode()
    (ready,) = orders.receive()
    ready.complete()
    assert "COMPLETED" in clerk.get(f"{LIST}orders {ready.sequence_number}/change/").content.decode()


@pytest.mark.parametrize("name", ["orders 4711", "orders x", "orders", "orders 99999999999999999999"])
def test_a_missing_message_is_not_found(client: QueueClient, clerk: Client, name: str) -> None:
    assert clerk.get(f"{LIST}{name}/change/").status_code == 404


@pytest.mark.parametrize("query", [{"queue": "nothing"}, {"queue": "orders", "state": "ILL"}])
def test_a_wrong_question_is_answered_by_an_error(client: QueueClient, clerk: Client, query: dict[str, str]) -> None:
    page = clerk.get(LIST, query)
    assert page.status_code == 200
    assert 'class="errornote"' in page.content.decode()


def test_nothing_is_changed(orders: Queue, clerk: Client) -> None:
    number = orders.send(Message(7))
    for page in (f"{LIST}orders {number}/change/", f"{LIST}orders {number}/delete/", f"{LIST}add/"):
        assert clerk.post(page).status_code == 403
    assert clerk.get(f"{LIST}add/").status_code == 403
    assert len(orders.peek()) == 1


def test_a_user_without_the_right_sees_no_message(orders: Queue, clerk: Client) -> None:
    number = orders.send(Message(7))
    User.objects.get(username="clerk").user_permissions.clear()
    for page in (LIST, f"{LIST}orders {number}/change/"):
        assert clerk.get(page).status_code == 403


def test_the_checks_of_django_find_nothing(client: QueueClient) -> None:
    call_command("check", fail_level="WARNING", verbosity=0)
