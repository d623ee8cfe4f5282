"""Actions in the dashboard: the permissions they need, their effects, and their audit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx import Response

from pgqueue import LockLostError, Message, QueueClient
from pgqueue.dashboard.security import hash_password
from pgqueue.testing import Database
from tests.dashboard.conftest import Open

TOMORROW = datetime(2099, 1, 1, tzinfo=UTC)


@pytest.fixture
def orders(client: QueueClient) -> QueueClient:
    client.create_queue("orders")
    return client


def fields(page: str) -> dict[str, Any]:
    """The fields of the form that a confirmation asks to be sent."""
    form = page[page.index('<form method="post" action="/act">') :]
    found: dict[str, Any] = {"numbers": []}
    for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form):
        if name == "numbers":
            found["numbers"].append(value)
        else:
            found[name] = value.replace("&#34;", '"')
    return found


def confirmed(site: TestClient, **wanted: Any) -> tuple[str, Response]:
    """The confirmation page, and the response to its form."""
    page = site.get("/confirm", params=wanted)
    assert page.status_code == 200, page.text
    return page.text, site.post("/act", data=fields(page.text))


def entries(site: TestClient) -> list[tuple[str, str, int | None]]:
    found = site.get("/api/audit").json()["entries"]
    return [(entry["action"], entry["queue"], entry["messages"]) for entry in found]


def dead_letters(client: QueueClient, *reasons: str) -> list[int]:
    queue = client.queue("orders")
    numbers = []
    for reason in reasons:
        queue.send(Message(reason, priority=-1))
        for received in queue.receive():
            received.dead_letter(reason)
            numbers.append(received.sequence_number)
    return numbers


def test_a_test_message_is_sent(orders: QueueClient, writable: TestClient) -> None:
    page, answer = confirmed(writable, action="send", queue="orders", body='{"id": 7}', subject="test", back="/")
    assert "Send 1 message to" in page
    assert answer.headers["location"] == "/?did=send&n=1"
    (message,) = orders.queue("orders").peek()
    assert (message.body, message.subject) == ({"id": 7}, "test")
    assert entries(writable) == [("send", "orders", 1)]
    assert writable.get("/confirm?action=send&queue=orders&body={").status_code == 200
    _, answer = confirmed(writable, action="send", queue="orders", body="{")
    assert answer.status_code == 400


@pytest.mark.parametrize("action", ["resubmit", "purge"])
def test_dead_letters_are_chosen_one_by_one_or_by_filters(
    orders: QueueClient, writable: TestClient, action: str
) -> None:
    odd, other, third = dead_letters(orders, "Odd", "Other", "Odd")
    page, answer = confirmed(writable, action=action, queue="orders", numbers=[odd, other])
    assert "2 messages" in page
    assert answer.status_code == 303
    assert [each.sequence_number for each in orders.queue("orders").dead_letters.peek(max_messages=9)] == [third]
    dead_letters(orders, "Other") if action == "purge" else None
    page, answer = confirmed(writable, action=action, queue="orders", reason="Odd")
    assert "1 message" in page
    left = [each.dead_letter_reason for each in orders.queue("orders").dead_letters.peek(max_messages=9)]
    assert left == (["Other"] if action == "purge" else [])
    assert entries(writable) == [(action, "orders", 1), (action, "orders", 2)]
    assert "No dead letter matches" in writable.get(f"/confirm?action={action}&queue=orders&reason=None").text


def test_no_more_dead_letters_are_purged_than_the_confirmation_counted(
    orders: QueueClient, writable: TestClient
) -> None:
    dead_letters(orders, "Odd")
    form = fields(writable.get("/confirm?action=purge&queue=orders").text)
    (second,) = dead_letters(orders, "Odd")
    writable.post("/act", data=form)
    assert [each.sequence_number for each in orders.queue("orders").dead_letters.peek(max_messages=9)] == [second]


def test_a_message_is_unlocked(orders: QueueClient, writable: TestClient) -> None:
    orders.queue("orders").send(Message(1))
    (held,) = orders.queue("orders").receive()
    assert "Unlock" in writable.get(f"/message?queue=orders&number={held.sequence_number}").text
    confirmed(writable, action="unlock", queue="orders", numbers=held.sequence_number)
    with pytest.raises(LockLostError):
        held.complete()


def test_a_locked_dead_letter_can_be_unlocked(orders: QueueClient, writable: TestClient) -> None:
    (number,) = dead_letters(orders, "Odd")
    page = f"/message?queue=orders&number={number}&dead=true"
    assert "Unlock" not in writable.get(page).text
    (held,) = orders.queue("orders").dead_letters.receive()
    found = writable.get(page).text
    form = found[: found.index("Unlock …")].rpartition("<form")[2]
    wanted = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))
    assert (wanted["action"], wanted["dead"]) == ("unlock", "true")
    confirmed(writable, **wanted)
    assert "Unlock" not in writable.get(page).text
    with pytest.raises(LockLostError):
        held.complete()
    assert entries(writable)[0] == ("unlock", "orders", 1)


def test_scheduled_messages_are_rescheduled_and_cancelled(orders: QueueClient, writable: TestClient) -> None:
    number = orders.queue("orders").schedule(Message(1), at=TOMORROW)
    confirmed(writable, action="reschedule", queue="orders", numbers=number, at="2098-05-04T03:02")
    (message,) = orders.queue("orders").peek()
    assert message.scheduled_enqueue_time == datetime(2098, 5, 4, 3, 2, tzinfo=UTC)
    confirmed(writable, action="cancel", queue="orders", numbers=number)
    assert orders.queue("orders").peek() == []


def buttons(page: str) -> set[str]:
    return set(re.findall(r"<button[^>]*>([^<]+ …)</button>", page))


def test_a_waiting_message_is_deleted(orders: QueueClient, writable: TestClient) -> None:
    queue = orders.queue("orders")
    first, second, third = queue.send_batch([Message(1), Message(2), Message(3)])
    assert buttons(writable.get(f"/message?queue=orders&number={first}").text) == {"Delete …", "Move …"}
    assert {"Delete selected …", "Move selected …"} <= buttons(writable.get("/messages?queue=orders").text)
    page, _ = confirmed(writable, action="delete", queue="orders", numbers=[first, second])
    assert "Delete 2 messages of" in page
    assert "There is no way back." in page
    assert [message.sequence_number for message in queue.peek(max_messages=9)] == [third]
    assert entries(writable) == [("delete", "orders", 2)]


def test_a_message_that_is_being_worked_on_is_cancelled(orders: QueueClient, writable: TestClient) -> None:
    queue = orders.queue("orders")
    queue.send(Message(1))
    (held,) = queue.receive()
    number = held.sequence_number
    assert buttons(writable.get(f"/message?queue=orders&number={number}").text) == {"Unlock …", "Cancel …"}
    _, response = confirmed(writable, action="stop", queue="orders", numbers=number, reason="sent twice")
    assert "did=stop&n=1" in response.headers["location"]
    with pytest.raises(LockLostError):
        held.complete()
    (dead,) = queue.dead_letters.peek()
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("Cancelled", "sent twice")
    _, response = confirmed(writable, action="stop", queue="orders", numbers=number)
    assert "did=stop&n=0" in response.headers["location"]


def test_messages_are_moved_to_another_queue(orders: QueueClient, writable: TestClient) -> None:
    orders.create_queue("mails")
    number = orders.queue("orders").send(Message(1))
    page, _ = confirmed(writable, action="move", queue="orders", numbers=number, to="mails")
    assert "<dd>mails</dd>" in page
    (moved,) = orders.queue("mails").peek()
    assert moved.sequence_number == number
    assert entries(writable) == [("move", "orders", 1)]
    refused = writable.post("/act", data={**fields(page), "to": "nowhere", "numbers": [number]})
    assert "queue nowhere does not exist" in refused.text


def test_an_action_without_its_arguments_is_refused_by_name(orders: QueueClient, writable: TestClient) -> None:
    number = orders.queue("orders").send(Message(1))
    page, _ = confirmed(writable, action="pause", queue="orders")
    for wanted, lack in (
        ({"action": "move", "numbers": [number]}, "move needs the other queue"),
        ({"action": "delete"}, "delete concerns messages: give their numbers"),
        ({"action": "stop"}, "stop concerns one message"),
    ):
        refused = writable.post("/act", data={"token": fields(page)["token"], "queue": "orders", **wanted})
        assert lack in refused.text


@pytest.mark.parametrize("action", ["resubmit", "purge"])
def test_nothing_selected_does_not_mean_all(orders: QueueClient, writable: TestClient, action: str) -> None:
    dead_letters(orders, "Odd", "Other")
    page = writable.get("/messages?queue=orders&state=DEAD_LETTERED").text
    selection = page[page.index('id="selection"') : page.index("</form>", page.index('id="selection"'))]
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', selection))
    refused = writable.get("/confirm", params={**hidden, "action": action})
    assert refused.status_code == 400
    assert "no message is selected" in refused.text


def test_the_enter_key_deletes_and_cancels_nothing(orders: QueueClient, writable: TestClient) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    orders.queue("orders").send_batch([Message(1), Message(2, scheduled_enqueue_time=later)])
    for state in ("", "&state=READY", "&state=SCHEDULED"):
        page = writable.get(f"/messages?queue=orders{state}").text
        buttons = re.findall(r'<button name="action" value="(\w+)"', page[page.index('id="selection"') :])
        assert buttons[0] == "move", "a browser takes the first button"


def test_a_queue_is_paused_and_resumed(orders: QueueClient, writable: TestClient) -> None:
    confirmed(writable, action="pause", queue="orders")
    assert orders.get_queue("orders").paused_at is not None
    assert "Resume" in writable.get("/queue?name=orders").text
    confirmed(writable, action="resume", queue="orders")
    assert orders.get_queue("orders").paused_at is None
    assert entries(writable) == [("resume", "orders", None), ("pause", "orders", None)]


def test_a_dashboard_that_is_not_writable_changes_nothing(orders: QueueClient, site: TestClient) -> None:
    token = site.get("/api/session").json()["token"]
    form = {"token": token, "action": "pause", "queue": "orders"}
    assert site.get("/confirm", params=form).status_code == 403
    assert site.post("/act", data=form).status_code == 403
    assert site.post("/api/actions", json=form, headers={"X-CSRF-Token": token}).status_code == 403
    assert orders.get_queue("orders").paused_at is None
    assert "Pause" not in site.get("/queue?name=orders").text


@pytest.mark.core
def test_an_action_without_the_token_of_the_page_is_refused(orders: QueueClient, opened: Open) -> None:
    site, other = opened(is_writable=True), opened(is_writable=True)
    token = other.get("/api/session").json()["token"]
    wanted = {"action": "pause", "queue": "orders"}
    for given in ("", "x" * 64, token):
        assert site.post("/act", data={"token": given, **wanted}).status_code == 403
        assert site.post("/api/actions", json=wanted, headers={"X-CSRF-Token": given}).status_code == 403
    assert orders.get_queue("orders").paused_at is None
    token = site.get("/api/session").json()["token"]
    assert site.post("/api/actions", json=wanted, headers={"X-CSRF-Token": token}).json() == {"messages": 0}


def test_it_leads_back_to_pages_of_its_own_only(orders: QueueClient, writable: TestClient) -> None:
    for elsewhere in ("https://evil.example", "//evil.example", "/\\evil.example", "/\tx"):
        page, answer = confirmed(writable, action="pause", queue="orders", back=elsewhere)
        assert '<a href="/">Leave it</a>' in page
        assert answer.headers["location"].startswith("/queue?")


@pytest.fixture
def ann(database: Database, client: QueueClient) -> Iterator[str]:
    """A role that may receive from orders, and nothing else."""
    role = f"ann_{database.name}"
    client.create_queue("orders")
    client.create_queue("secrets")
    with database.connect(autocommit=True) as connection:
        connection.execute(f"create role {role}".encode())
        connection.execute("select pgqueue.grant_receive('orders', %s)", [role])
        yield role
        connection.execute("select pgqueue.revoke_receive('orders', %s)", [role])
        connection.execute(f"drop role {role}".encode())


def sign_in(site: TestClient, role: str, password: str) -> Response:
    token = re.search(r'name="token" value="(\w+)"', site.get("/sign-in").text)
    assert token
    answer: Response = site.post(
        "/sign-in", data={"role": role, "password": password, "token": token[1], "next": "/audit"}
    )
    return answer


def test_a_signed_in_user_has_the_rights_of_the_database_role(opened: Open, client: QueueClient, ann: str) -> None:
    site = opened(is_writable=True, accounts={ann: hash_password("right")})
    assert site.get("/").headers["location"].startswith("/sign-in?")
    assert site.get("/api/queues").status_code == 401
    assert sign_in(site, ann, "wrong").status_code == 401
    assert sign_in(site, "postgres", "right").status_code == 401
    answer = sign_in(site, ann, "right")
    assert answer.headers["location"] == "/audit"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert site.get("/queue?name=orders").status_code == 200
    assert site.get("/api/session").json()["role"] == ann
    for refused in ("/", "/queue?name=secrets", "/messages?queue=secrets", "/workers"):
        assert site.get(refused).status_code == 403, refused
    _, answer = confirmed(site, action="pause", queue="orders")
    assert answer.status_code == 403
    dead_letters(client, "Odd")
    confirmed(site, action="resubmit", queue="orders")
    assert site.get("/api/audit").json()["entries"][0]["role"] == ann
    token = site.get("/api/session").json()["token"]
    site.post("/sign-out", data={"token": token})
    assert site.get("/api/queues").status_code == 401


def test_a_proxy_is_believed_from_its_address_only(opened: Open, ann: str) -> None:
    trusted = opened(proxy_header="X-Remote-User", trusted_proxies=("testclient",))
    elsewhere = opened(proxy_header="X-Remote-User")
    said = {"X-Remote-User": ann}
    assert trusted.get("/queue?name=orders", headers=said).status_code == 200
    assert trusted.get("/queue?name=secrets", headers=said).status_code == 403
    assert trusted.get("/api/queues").status_code == 401
    assert elsewhere.get("/api/queue?name=orders", headers=said).status_code == 401
    for nobody in ("none", "no such role", ""):
        assert trusted.get("/api/queues", headers={"X-Remote-User": nobody}).status_code == 403, nobody


def test_the_cookie_is_for_https_where_the_page_is(opened: Open) -> None:
    site = opened()
    secure = site.get("/", headers={"X-Forwarded-Proto": "https"}).headers["set-cookie"]
    assert secure.startswith("__Host-pgqueue_dashboard=")
    assert "Secure" in secure
    assert "Path=/" in secure
    assert "Domain" not in secure
    plain = opened().get("/").headers["set-cookie"]
    assert plain.startswith("pgqueue_dashboard=")
    assert "Secure" not in plain


def test_a_cookie_that_a_neighbouring_site_has_set_counts_for_nothing(opened: Open, ann: str) -> None:
    """Any host below the same domain can set a cookie of this name, but none with the prefix."""
    site = opened(accounts={ann: hash_password("right")})
    assert sign_in(site, ann, "right").status_code == 303
    assert site.get("/api/session").status_code == 200
    assert site.get("/api/session", headers={"X-Forwarded-Proto": "https"}).status_code == 401


def test_dead_letters_are_chosen_by_age(orders: QueueClient, writable: TestClient, database: Database) -> None:
    dead_letters(orders, "Odd")
    database.move_clock(timedelta(hours=2))
    dead_letters(orders, "Odd")
    token = writable.get("/api/session").json()["token"]
    wanted = {"action": "purge", "queue": "orders", "older_than_hours": 1}
    assert writable.post("/api/concerned", json=wanted).json() == {"messages": 1}
    assert writable.post("/api/actions", json=wanted, headers={"X-CSRF-Token": token}).json() == {"messages": 1}
    assert len(orders.queue("orders").dead_letters.peek(max_messages=9)) == 1
