"""The messages that share a transaction, and those whose transaction may begin with the COMMIT of another."""

from __future__ import annotations

from pgqueue.flows.locked import LockedMessage
from pgqueue.flows.processing import Ahead
from pgqueue.worker.handlers import Routes


def together(first: LockedMessage, most: int, ahead: Ahead, routes: Routes) -> list[LockedMessage]:
    """The first message and, if it is handled in a transaction, those that wait ``ahead`` and can share it."""
    taken = [first]
    if routes.takes_transaction(first):
        while len(taken) < most and (message := ahead.get_nowait()) is not None:
            taken.append(message)
    return taken


class Chainable:
    """The next message that waits, if it is handled in a transaction."""

    def __init__(self, waiting: Ahead, routes: Routes) -> None:
        self._waiting = waiting
        self._routes = routes

    def get_nowait(self) -> LockedMessage | None:
        """Take it, if there is one."""
        message = self._waiting.get_nowait()
        if message is None or self._routes.takes_transaction(message):
            return message
        self._waiting.put_back(message)
        return None

    def put_back(self, message: LockedMessage) -> None:
        """Return it; it is the next to be taken."""
        self._waiting.put_back(message)
