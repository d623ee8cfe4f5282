"""Names of queues. The dead letters of a queue are a queue of their own, with a name derived from it."""

from __future__ import annotations

DEAD_LETTER_QUEUE = "/$deadletterqueue"


def dead_letter_queue(queue: str) -> str:
    """The name of a queue's dead letters, under which they are received and settled, as in Azure Service Bus."""
    return queue + DEAD_LETTER_QUEUE


def is_dead_letter_queue(name: str) -> bool:
    """Whether the name is that of a queue's dead letters."""
    return name.endswith(DEAD_LETTER_QUEUE)


def dead_letters_of(name: str) -> str:
    """The queue that these dead letters belong to."""
    return name.removesuffix(DEAD_LETTER_QUEUE)
