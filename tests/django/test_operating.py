"""Commands of ``manage.py``, and the admin pages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.db import connection
from django.test import Client

from pgqueue import Message, QueueClient
from pgqueue.django import admin as pages
from pgqueue.django.models import Queue
from pgqueue.testing import Database
from tests.django.shop import Shipped
from tests.patience import PATIENCE, eventually

ROOT = Path(__file__).parents[2]


def command(database: Database, *arguments: str, name: str = "pgqueue") -> subprocess.Popen[str]:
    environment = os.environ | {"PGQUEUE_DSN": database.direct, "DJANGO_SETTINGS_MODULE": "tests.django.settings"}
    line = [sys.executable, "-m", "django", name, *arguments]
    return subprocess.Popen(line, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said_by(database: Database, *arguments: str) -> tuple[int, str, str]:
    ran = command(database, *arguments)
    out, err = ran.communicate(timeout=PATIENCE)
    return ran.returncode, out, err


def test_commands_run_on_the_database_of_the_project(client: QueueClient, project: Database) -> None:
    client.queue("orders").send(Message(7))
    code, out, err = said_by(project, "stats", "--json")
    assert (code, err) == (0, "")
    assert '"orders"' in out
    assert said_by(project, "sweep")[0] == 0


def test_exit_codes_and_errors_are_those_of_the_command_line(client: QueueClient, project: Database) -> None:
    code, _, err = said_by(project, "queue", "show", "nothing")
    assert code == 1
    assert "nothing" in err
    assert "Traceback" not in err
    assert said_by(project, "nonsense")[0] == 2


def test_advised_commands_are_those_of_manage_py(client: QueueClient, project: Database) -> None:
    assert "`python manage.py pgqueue queue list`" in said_by(project, "queue", "show", "nothing")[2]
    assert "see `python manage.py pgqueue queue show --help`" in said_by(project, "queue", "show")[2]
    with connection.cursor() as cursor:
        cursor.execute("drop index pgqueue.message_expiry")
    assert "fix: python manage.py pgqueue migrate\n" in said_by(project, "doctor")[1]
    other = said_by(project, "--database", "other", "queue", "show", "nothing")[2]
    assert "`python manage.py pgqueue --database other queue list`" in other


def test_a_worker_runs_handlers_that_use_models(client: QueueClient, project: Database) -> None:
    client.queue("orders").send_batch([Message({"order": each}) for each in (1, 2, 3)])
    worker = command(project, "worker", "tests.django.shop:ship", "orders", "--concurrency", "2")
    try:
        eventually(lambda: Shipped.objects.count() == 3 and client.queue("orders").peek() == [])
    finally:
        worker.send_signal(signal.SIGTERM)
        _, err = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0, err


@pytest.fixture
def admin(client: QueueClient) -> Client:
    """The browser of a superuser."""
    browser = Client(headers={"host": "localhost"})
    browser.force_login(User.objects.create_superuser("admin"))
    return browser


@pytest.mark.core
def test_the_admin_shows_queues_and_dead_letters(client: QueueClient, admin: Client) -> None:
    orders = client.queue("orders")
    orders.send(Message({"order": 7}, subject="<b>paid</b>"))
    (received,) = orders.receive()
    received.dead_letter("Unpayable", "no <i>money</i>")
    page = admin.get("/admin/pgqueue/queue/").content.decode()
    assert "orders" in page
    letters = admin.get("/admin/pgqueue/deadletter/?q=Unpayable").content.decode()
    assert "&lt;b&gt;paid&lt;/b&gt;" in letters
    letter = admin.get(f"/admin/pgqueue/deadletter/{received.sequence_number}/change/").content.decode()
    assert "no &lt;i&gt;money&lt;/i&gt;" in letter


@pytest.mark.parametrize("page", ["queue/add/", "queue/orders/delete/", "deadletter/add/"])
def test_the_admin_changes_nothing(client: QueueClient, admin: Client, page: str) -> None:
    assert admin.get(f"/admin/pgqueue/{page}").status_code == 403
    assert admin.post("/admin/pgqueue/queue/orders/change/", {"status": "DISABLED"}).status_code == 403


def test_a_user_without_the_right_sees_nothing(client: QueueClient, admin: Client) -> None:
    admin.force_login(User.objects.create_user("clerk", is_staff=True))
    assert admin.get("/admin/pgqueue/queue/").status_code == 403


def test_pages_are_counted_no_further_than_their_bound(client: QueueClient, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        client.create_queue(name)
    monkeypatch.setattr(pages, "MOST", 2)
    assert pages.BoundedPaginator(Queue.objects.order_by("name"), 1).count == 2
    assert Paginator(Queue.objects.order_by("name"), 1).count == 4
