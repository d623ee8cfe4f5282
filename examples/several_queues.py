"""One worker serves two queues; handlers are chosen by subject, and get bodies of their types.

In production `pgqueue worker several_queues:app` runs the same handlers.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from dataclasses import dataclass

import psycopg

from pgqueue import Handlers, Message, QueueClient, ReceivedMessage, Worker, embedded

app = Handlers()


@dataclass
class Order:
    number: int
    city: str


@app.handler("example-orders", subject="paid")
def ship(message: ReceivedMessage[Order], tx: psycopg.Connection) -> None:
    """The row and the completion of the message are one transaction."""
    tx.execute("insert into example_shipped values (%s, %s)", [message.body.number, message.body.city])


@app.handler("example-orders")
def note(message: ReceivedMessage) -> None:
    print(f"nothing to do for {message.subject}")


@app.handler("example-returns")
def refund(message: ReceivedMessage[Order], tx: psycopg.Connection) -> None:
    tx.execute("delete from example_shipped where number = %s", [message.body.number])


def stop_when_done(worker: Worker, client: QueueClient) -> None:
    """In production it is SIGTERM that stops a worker."""
    while any(client.queue(name).peek() for name in app.queues):
        time.sleep(0.05)
    worker.stop()


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, format="%(message)s")
    dsn = os.environ.get("PGQUEUE_DSN") or embedded.start()
    with QueueClient(dsn) as client, psycopg.connect(dsn, autocommit=True) as connection:
        client.migrate()
        for name in app.queues:
            client.create_queue(name)
        connection.execute("create table example_shipped (number int, city text)")
        connection.execute("insert into example_shipped values (0, 'Chur')")
        orders = client.queue("example-orders")
        orders.send(Message({"number": 1, "city": "Basel"}, subject="paid"))
        orders.send(Message({"number": "two", "city": "Bern"}, subject="paid"))
        orders.send(Message({"number": 3}, subject="asked"))
        client.queue("example-returns").send(Message({"number": 0, "city": "Chur"}))

        worker = Worker(client, app, concurrency=1, transaction="psycopg")
        threading.Thread(target=stop_when_done, args=(worker, client)).start()
        worker.run()

        print(f"shipped: {connection.execute('select number, city from example_shipped').fetchall()}")
        for dead in orders.dead_letters.peek():
            print(f"dead: {dead.dead_letter_error_description}")
        connection.execute("drop table example_shipped")
        for name in app.queues:
            client.delete_queue(name)
