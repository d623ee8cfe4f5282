"""Dead letters are resubmitted in the admin: with a permission, after a confirmation, and recorded."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connection
from django.test import Client

from pgqueue import Message, Queue, QueueClient
from pgqueue.django import admin as pages
from pgqueue.testing import Database

LIST = "/admin/pgqueue/deadletter/"
ACTION = 'value="resubmit"'


@pytest.fixture
def orders(client: QueueClient) -> Queue:
    """A queue with three dead letters, and another with one."""
    client.create_queue("mail")
    for name, count in (("orders", 3), ("mail", 1)):
        queue = client.queue(name)
        queue.send_batch([Message(f"{name} {each}") for each in range(count)])
        for message in queue.receive(max_messages=count):
            message.dead_letter("Unpayable")
    return client.queue("orders")


def browser_of(*permissions: str) -> Client:
    user = User.objects.create_user("clerk", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    browser = Client(headers={"host": "localhost"}, enforce_csrf_checks=True)
    browser.force_login(user)
    return browser


@pytest.fixture
def clerk(orders: Queue) -> Client:
    return browser_of("view_deadletter", "resubmit_deadletter")


def dead(queue: Queue) -> list[int]:
    return [each.sequence_number for each in queue.dead_letters.peek(max_messages=99)]


def submitted(browser: Client, page: str, address: str, **fields: object) -> str:
    """The page that follows when the form of a page is sent, with its hidden fields."""
    hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page)
    form: dict[str, object] = {name: [value for known, value in hidden if known == name] for name, _ in hidden}
    return str(browser.post(address, {**form, **fields}, follow=True).content.decode())


def ask(browser: Client, numbers: list[int], address: str = LIST, across: int = 0) -> str:
    page = browser.get(address).content.decode()
    fields = {"action": "resubmit", "_selected_action": numbers, "select_across": across, "index": 0}
    return submitted(browser, page, address, **fields)


def recorded() -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "select action, queue, messages, details ->> 'user', details -> 'numbers' from pgqueue.audit_log"
        )
        return [tuple(row) for row in cursor.fetchall()]


def test_the_selected_ones_are_resubmitted_once_it_is_confirmed(orders: Queue, clerk: Client) -> None:
    first, second, third = dead(orders)
    question = ask(clerk, [first, third])
    assert "<li>orders: 2</li>" in question
    assert (dead(orders), recorded()) == ([first, second, third], [])
    answer = submitted(clerk, question, LIST, confirmed="Resubmit")
    assert "2 of 2 dead letters were resubmitted." in answer
    assert dead(orders) == [second]
    assert [each.body for each in orders.receive(max_messages=9)] == ["orders 0", "orders 2"]
    assert recorded() == [("resubmit", "orders", 2, "clerk", f"[{first}, {third}]")]


def test_all_that_a_search_finds_are_resubmitted(
    client: QueueClient, orders: Queue, clerk: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages.DeadLetterAdmin, "list_per_page", 1)
    found = f"{LIST}?q=orders"
    question = ask(clerk, dead(orders)[:1], found, across=1)
    assert "<li>orders: 3</li>" in question
    submitted(clerk, question, found, confirmed="Resubmit")
    assert (dead(orders), len(dead(client.queue("mail")))) == ([], 1)


def test_several_queues_have_an_entry_each(client: QueueClient, orders: Queue, clerk: Client) -> None:
    mail = client.queue("mail")
    submitted(clerk, ask(clerk, dead(orders) + dead(mail)), LIST, confirmed="Resubmit")
    assert (dead(orders), dead(mail)) == ([], [])
    assert sorted(each[1:3] for each in recorded()) == [("mail", 1), ("orders", 3)]


def test_locked_dead_letters_stay_and_the_page_reports_them(orders: Queue, clerk: Client) -> None:
    (locked,) = orders.dead_letters.receive()
    answer = submitted(clerk, ask(clerk, dead(orders)), LIST, confirmed="Resubmit")
    assert "2 of 3 dead letters were resubmitted." in answer
    assert "The others are locked, or no longer there." in answer
    assert dead(orders) == [locked.sequence_number]


def test_no_more_than_the_bound_are_resubmitted(orders: Queue, clerk: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST", 2)
    submitted(clerk, ask(clerk, dead(orders)), LIST, confirmed="Resubmit")
    assert len(dead(orders)) == 1


def test_an_error_is_shown_and_nothing_is_resubmitted(client: QueueClient, orders: Queue, clerk: Client) -> None:
    before = dead(orders)
    question = ask(clerk, before)
    with connection.cursor() as cursor:
        cursor.execute("alter table pgqueue.audited_action add constraint the_log_is_full check (false) not valid")
    assert "the_log_is_full" in submitted(clerk, question, LIST, confirmed="Resubmit")
    assert dead(orders) == before


def test_a_form_from_elsewhere_is_refused(orders: Queue, clerk: Client) -> None:
    form = {"action": "resubmit", "_selected_action": dead(orders), "select_across": 0, "confirmed": "Resubmit"}
    assert clerk.post(LIST, form).status_code == 403
    assert len(dead(orders)) == 3


@pytest.mark.parametrize("permissions", [("view_deadletter",), ("resubmit_deadletter",), ("delete_deadletter",)])
def test_both_permissions_are_needed(orders: Queue, permissions: tuple[str, ...]) -> None:
    browser = browser_of(*permissions)
    browser.handler.enforce_csrf_checks = False
    assert ACTION not in browser.get(LIST).content.decode()
    form = {"action": "resubmit", "_selected_action": dead(orders), "select_across": 0, "confirmed": "Resubmit"}
    browser.post(LIST, form)
    assert len(dead(orders)) == 3


def test_the_migrations_of_django_are_complete(project: Database) -> None:
    call_command("makemigrations", "pgqueue", check=True, dry_run=True, verbosity=0)
