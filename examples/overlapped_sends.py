"""A burst of messages at a distance: one after the other, then ten in flight at once; and a refused one."""

from __future__ import annotations

import os
import time

from pgqueue import Message, QueueClient, embedded
from pgqueue.errors import MessageSizeExceededError, SendError

dsn = os.environ.get("PGQUEUE_DSN") or embedded.start()

with QueueClient(dsn) as client:
    client.migrate()
    client.create_queue("example-burst", max_message_size=1000)
    burst = client.queue("example-burst")

    # Each send waits for its outcome: a hundred round trips.
    began = time.monotonic()
    for number in range(100):
        burst.send(Message({"reading": number}))
    in_a_row = time.monotonic() - began

    # The sends overlap; the eleventh waits until one of the first ten has its outcome.
    began = time.monotonic()
    with burst.sender(max_in_flight=10) as sender:
        pending = [sender.send(Message({"reading": number})) for number in range(100)]
        numbers = [each.result() for each in pending]
    overlapped = time.monotonic() - began
    print(
        f"{len(numbers)} stored; overlapped in {overlapped / in_a_row:.0%} of the time, and the farther away the less"
    )

    # Each send has its own outcome: a refused message does not fail the others.
    with burst.sender() as sender:
        pending = [sender.send(Message("x" * size)) for size in (10, 2000, 20)]
        for each in pending:
            try:
                each.result()
            except MessageSizeExceededError as refusal:
                print(f"refused: {len(each.message.body)} letters; worth another try: {refusal.is_transient}")

    # Nothing reads the outcome here, so the end of the block raises the failure.
    try:
        with burst.sender() as sender:
            sender.send(Message("x" * 3000))
    except SendError as failed:
        print(f"not read, yet raised: {failed.exceptions[0].sqlstate}")

    client.delete_queue("example-burst")
