"""A message every second, for three seconds; and the next nights at half past two, through a change of the clocks."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from pgqueue import Message, QueueClient, ReceivedMessage, Worker, embedded

ZURICH = ZoneInfo("Europe/Zurich")

dsn = os.environ.get("PGQUEUE_DSN") or embedded.start()

with QueueClient(dsn) as client:
    client.migrate()
    client.create_queue("example-ticks")
    client.create_schedule("example-tick", queue="example-ticks", message=Message("tick"), every=timedelta(seconds=1))

    # Nothing else runs: the worker sends the messages that are due, and handles them. Ten workers would send as many.
    ticks = []

    def count(message: ReceivedMessage) -> None:
        ticks.append(message.message_id)
        print(message.message_id)
        if len(ticks) == 3:
            worker.stop()

    worker = Worker(client.queue("example-ticks"), count)
    worker.run()

    # In the night of 28 March 2100 clocks go from 2:00 to 3:00.
    nightly = client.create_schedule(
        "example-nightly",
        queue="example-ticks",
        message=Message({"kind": "sales"}),
        cron="30 2 * * *",
        timezone="Europe/Zurich",
        start=datetime(2100, 3, 27, tzinfo=ZURICH),
    )
    for due in nightly.upcoming(3):
        print(due.astimezone(ZURICH))

    client.delete_queue("example-ticks")  # and its schedules
