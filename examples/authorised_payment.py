"""Another process authorises a payment later, or refuses it, or never answers, so that the payment times out.

The shop and the bank are two processes, each with a queue and a transmitter. Notifications from one to the other go
through a bridge. The shop's notification stays pending meanwhile, and its state records that it was forwarded.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from pgqueue import QueueClient, embedded
from pgqueue.notifications import (
    Bridge,
    NotificationTypes,
    Pace,
    QueuedTransmitter,
    QueueNotification,
    ReceiptStatus,
)

SHOP, BANK = "example-shop", "example-bank"
PACE = Pace(timedelta(seconds=0.2), 1.5, timedelta(seconds=1))
TIMEOUT, IMPATIENCE = timedelta(hours=1), timedelta(seconds=4)
EXPECTED = {1: "authorised", 2: "refused", 3: "timed out"}

types, payments, decisions = NotificationTypes(), NotificationTypes(), NotificationTypes()


@payments.register("payment")
@types.register("payment")
@dataclass
class Payment(QueueNotification):
    """The shop asks for the payment of an order."""

    order: int
    amount: int


@decisions.register("decision")
@types.register("decision")
@dataclass
class Decision(QueueNotification):
    """The bank's answer."""

    order: int
    verdict: str


def shop(client: QueueClient) -> QueuedTransmitter:
    """Payments stay pending here until the bank has decided, or until they time out."""
    transmitter = QueuedTransmitter(client.queue(SHOP), types, pace=PACE, time_to_live=TIMEOUT)
    transmitter.register(Bridge(client.queue(BANK), payments))

    @transmitter.register
    def settle(payment: Any, tx: Any) -> ReceiptStatus | None:
        if not isinstance(payment, Payment):
            return None
        said = tx.execute("select verdict from example_decision where id = %s", [payment.order]).fetchone()
        if said or payment.timed_out:
            verdict = said[0] if said else "timed out"
            tx.execute("update example_order set status = %s where id = %s", [verdict, payment.order])
            payment.complete = True  # so it is removed, in one transaction with the order's new status
        return ReceiptStatus.PENDING

    @transmitter.register
    def note(decision: Any, tx: Any) -> ReceiptStatus | None:
        if not isinstance(decision, Decision):
            return None
        tx.execute("insert into example_decision values (%s, %s)", [decision.order, decision.verdict])
        return ReceiptStatus.OK

    return transmitter


def bank(client: QueueClient) -> QueuedTransmitter:
    """Decides in the second round, and never decides on a payment of 13."""
    transmitter = QueuedTransmitter(client.queue(BANK), types, pace=PACE, time_to_live=TIMEOUT)
    transmitter.register(Bridge(client.queue(SHOP), decisions, answer=ReceiptStatus.FINISHED))

    @transmitter.register
    def decide(payment: Any, tx: Any) -> ReceiptStatus | None:
        if not isinstance(payment, Payment):
            return None
        if payment.state is None:
            payment.state = "asked the risk department"
        elif payment.timed_out:
            payment.complete = True
        elif payment.amount != 13:
            verdict = "authorised" if payment.amount < 1000 else "refused"
            transmitter.notify_all(Decision(payment.order, verdict), transaction=tx)
            return ReceiptStatus.OK
        return ReceiptStatus.PENDING

    return transmitter


def work(role: str, dsn: str) -> None:
    """The main function of each of the two processes."""
    with QueueClient(dsn) as client:
        transmitter = {"shop": shop, "bank": bank}[role](client)
        signal.signal(signal.SIGTERM, lambda *_: transmitter.stop())
        transmitter.run()


def main() -> int:
    dsn = os.environ.get("PGQUEUE_DSN") or embedded.start()
    with QueueClient(dsn) as client, psycopg.connect(dsn, autocommit=True) as conn:
        client.migrate()
        client.create_queue(SHOP)
        client.create_queue(BANK)
        conn.execute("create table example_order (id int primary key, status text)")
        conn.execute("create table example_decision (id int primary key, verdict text)")
        processes = [subprocess.Popen([sys.executable, __file__, role, dsn]) for role in ("shop", "bank")]

        # One transaction per order: no order exists without the request for its payment.
        transmitter = shop(client)
        for order, amount in ((1, 20), (2, 5000), (3, 13)):
            with conn.transaction():
                conn.execute("insert into example_order values (%s, 'open')", [order])
                payment = Payment(order, amount)
                if amount == 13:
                    payment.expires_at = datetime.now(UTC) + IMPATIENCE
                transmitter.notify_all(payment, transaction=conn)

        pending, shown = True, {}
        while pending and all(process.poll() is None for process in processes):
            time.sleep(0.1)
            pending = (
                conn.execute("select from pgqueue.notifications where queue like 'example-%'").fetchone() is not None
            )
            for order, status in conn.execute("select id, status from example_order order by id").fetchall():
                if shown.get(order) != status:
                    shown[order] = status
                    print(f"order {order} is {status}")

        for process in processes:
            process.terminate()
            process.wait()
        client.delete_queue(SHOP)
        client.delete_queue(BANK)
        conn.execute("drop table example_order, example_decision")

    is_right = shown == EXPECTED and not pending
    said = ", ".join(f"{order} {status}" for order, status in sorted(shown.items()))
    print(f"{'as it should be' if is_right else 'WRONG'}: {said}; {'something' if pending else 'nothing'} is pending"
          f"{'' if pending else ' any more'}")  # fmt: skip
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(work(*sys.argv[1:]) if len(sys.argv) > 1 else main())
