"""Names of queues that are derived from others: the dead letters of a queue, and the subscriptions of a topic."""

from __future__ import annotations

from pgqueue.model.arguments import name_of

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


def subscription_queue(topic: str, subscription: str) -> str:
    """The name of the queue that is a subscription, as in Azure Service Bus."""
    return f"{name_of('topic', topic)}/Subscriptions/{name_of('subscription', subscription)}"
