"""One transaction stores an order and sends its message; another ships it and completes the message."""

from __future__ import annotations

import os

import psycopg

from pgqueue import Message, QueueClient, embedded

dsn = os.environ.get("PGQUEUE_DSN") or embedded.start()

with QueueClient(dsn) as client, psycopg.connect(dsn) as conn:
    client.migrate()
    client.create_queue("example-orders")
    orders = client.queue("example-orders")

    # One transaction: no order exists without its message, and no message without its order.
    with conn.transaction():
        conn.execute("create temporary table placed (id int primary key)")
        conn.execute("create temporary table shipped (id int)")
        conn.execute("insert into placed values (7)")
        orders.send(Message({"order": 7}), transaction=conn)

    # Receiving locks the message and commits at once. No transaction is open while we wait.
    (received,) = orders.receive()

    # The first attempt fails after the work and the completion: the abort undoes both, and we still have the lock.
    try:
        with conn.transaction():
            conn.execute("insert into shipped values (%s)", [received.body["order"]])
            received.complete(transaction=conn)
            raise ConnectionAbortedError("the label printer is jammed")
    except ConnectionAbortedError as jam:
        print(f"not shipped: {jam}; the message is {received.state.value}")

    # So there is no need to receive again: begin another transaction.
    with conn.transaction():
        conn.execute("insert into shipped values (%s)", [received.body["order"]])
        received.complete(transaction=conn)
    print(f"shipped: {conn.execute('select id from shipped').fetchall()}; the message is {received.state.value}")

    client.delete_queue("example-orders")
