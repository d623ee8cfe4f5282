"""A shop's queues, with something in every state, as an engineer on call would find them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pgqueue import CorrelationFilter, JsonPathFilter, Message, QueueClient, ReceivedMessage, SqlFilter
from pgqueue.testing import Database

HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>"
WORKER = """
select pgqueue.heartbeat(gen_random_uuid(), %s, %s, '0.1.0', %s, 8, '3 hours', running => 5, handled => %s,
       failed => %s, failing => %s)
"""
TOMORROW = datetime(2099, 1, 1, tzinfo=UTC)


def fill(database: Database, client: QueueClient, minutes: int = 3) -> None:
    """Fills the queues, over some minutes, each with a sample at its end."""
    for name in ("orders", "invoices", "mails", "reports"):
        client.create_queue(name, retain_history=timedelta(days=2), retain_errors=3, max_delivery_count=3)
    client.create_queue("audit-trail")
    client.create_queue("imports", status="RECEIVE_DISABLED")
    client.pause_queue("reports")
    with database.connect() as connection:
        connection.execute(WORKER, ["shop-2", 4711, "{orders}", 812, 3, "{}"])
    for minute in range(minutes):
        work(database, client, minute)
        database.move_clock(timedelta(minutes=1))
        with database.connect() as connection:
            connection.execute("select pgqueue.take_sample()")
    with database.connect() as connection:
        connection.execute(WORKER, ["shop-1", 17, "{orders,invoices}", 20_411, 12, "{}"])
        connection.execute(WORKER, ["shop-3", 18, "{mails}", 7, 0, '{"claims": "the server closed the connection"}'])
    orders = client.queue("orders")
    orders.send(Message({"order": 4711, "text": HOSTILE}, subject=HOSTILE, priority=-1))
    orders.receive()
    orders.schedule(Message({"order": 4712, "remind": True}, subject="reminder"), at=TOMORROW)
    client.queue("invoices").schedule(Message({"invoice": 90210}, subject="monthly"), at=TOMORROW)
    client.queue("mails").send(Message({"to": "ann@example.com"}, subject="welcome"))
    client.queue("mails").receive(lock_duration=timedelta(microseconds=1))


def recur(client: QueueClient) -> None:
    """Creates schedules: on time, paused, and one whose messages are refused."""
    client.create_queue("exports", status="SEND_DISABLED")
    client.create_schedule("nightly", queue="exports", message=Message({"kind": "sales"}), cron="30 2 * * *")
    client.create_schedule(
        "stocktaking", queue="exports", message=Message(1), cron="0 4 1 * *", timezone="Europe/Zurich"
    )
    client.create_schedule("export", queue="exports", message=Message({"kind": "all"}), every=timedelta(seconds=30))
    client.pause_schedule("stocktaking")


def publish(client: QueueClient) -> None:
    """Creates a topic with subscriptions, and sends to it; one message dies."""
    client.create_topic("events")
    client.create_topic("returns")
    only = CorrelationFilter(subject="paid", application_properties={"country": "CH"})
    client.create_subscription("events", "billing", filter=only, set_properties={"ledger": "general"})
    client.create_subscription("events", "large", filter=JsonPathFilter("$.body.amount > 1000"))
    client.create_rule(
        "events", "large", "weighty", filter=SqlFilter("kilograms > 100"), set_properties={"heavy": True}
    )
    client.create_subscription("events", "archive")
    client.pause_queue("events/Subscriptions/archive")
    paid = {"country": "CH"}
    client.topic("events").send_batch(
        [Message({"amount": amount}, subject="paid", application_properties=paid) for amount in (50, 2000, 3000)]
    )
    for received in client.subscription("events", "large").receive():
        received.dead_letter("AmountUnknown")


def work(database: Database, client: QueueClient, minute: int) -> None:
    """Sends some messages to each queue, and completes most of them; some fail, and die of it."""
    for nth, name in enumerate(("orders", "invoices", "mails")):
        queue = client.queue(name)
        count = 6 + (minute * 7 + nth * 5) % 11
        properties = {"shop": "Bern", "channel": "web"}
        queue.send_batch(
            [
                Message(
                    {"order": 1000 + minute * 20 + n, "lines": [{"sku": "A-17", "count": n + 1}], "total": "129.90"},
                    subject="placed",
                    message_id=f"{name}-{minute}-{n}",
                    application_properties=properties,
                )
                for n in range(count)
            ]
        )
        database.move_clock(timedelta(milliseconds=150 + minute * 13 % 70))
        for n, received in enumerate(queue.receive(max_messages=count - 2)):
            settle(received, dies=nth == 0 and n == 0 and minute % 2 == 0)
        database.move_clock(timedelta(milliseconds=220))


def settle(received: ReceivedMessage, *, dies: bool) -> None:
    """Completes a message, or dead-letters it with an error."""
    if dies:
        try:
            raise ValueError("no such customer: 4711")
        except ValueError as error:
            received.dead_letter("CustomerUnknown", "no such customer: 4711", error=error)
    else:
        received.complete()
