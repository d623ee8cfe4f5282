"""The registered recipients: they are called one after the other, and their answers collected."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pgqueue.errors import InvalidArgumentError, logger
from pgqueue.flows import Flow
from pgqueue.model.arguments import shown
from pgqueue.model.calls import checked_result, must_finish
from pgqueue.notifications.receipts import ReceiptStatus, Round


@dataclass(frozen=True, eq=False)
class Registered:
    """A recipient, and how to call it."""

    recipient: Any
    receive: Callable[..., Any]
    takes_transaction: bool

    def __str__(self) -> str:
        return getattr(self.recipient, "__qualname__", None) or type(self.recipient).__qualname__


class Recipients:
    """The registered recipients, in order. Any thread may change them, even a recipient during its call."""

    def __init__(self, *, asynchronous: bool) -> None:
        self._asynchronous = asynchronous
        self._registered: tuple[Registered, ...] = ()
        self._lock = threading.Lock()

    def add(self, recipient: Any) -> None:
        """Register a recipient.

        Raises:
            InvalidArgumentError: it cannot be called, or is registered already.
        """
        receive = getattr(recipient, "receive", recipient)
        if not callable(receive):
            raise InvalidArgumentError(
                f"a recipient must be callable or have a method receive(), not {shown(recipient)}"
            )
        remedy = "register it with a transmitter of pgqueue.aio.notifications"
        must_finish(receive, "the recipient", asynchronous=self._asynchronous, remedy=remedy)
        registered = Registered(recipient, receive, _takes_two(receive))
        with self._lock:
            if any(_is_same(known.recipient, recipient) for known in self._registered):
                raise InvalidArgumentError(f"{shown(recipient)} is registered already")
            self._registered += (registered,)

    def remove(self, recipient: Any) -> None:
        """Deregister a recipient.

        Raises:
            InvalidArgumentError: it is not registered.
        """
        with self._lock:
            left = tuple(known for known in self._registered if not _is_same(known.recipient, recipient))
            if len(left) == len(self._registered):
                raise InvalidArgumentError(f"{shown(recipient)} is not registered")
            self._registered = left

    @property
    def take_transactions(self) -> bool:
        """Whether any recipient takes the transaction as a second argument."""
        return any(known.takes_transaction for known in self._registered)

    def notify_if_due(self, notification: Any, transaction: Any) -> Flow[Round]:
        """Run one round, unless the notification is not ready to be sent."""
        try:
            if not is_complete(notification) and not is_due(notification):
                return Round()
        except Exception as error:  # noqa: BLE001 - the application's code may raise anything
            logger.warning("the notification %s failed", type(notification).__name__, exc_info=error)
            return Round().fail(error)
        return (yield from self.notify(notification, transaction))

    def notify(self, notification: Any, transaction: Any) -> Flow[Round]:
        """Run one round: call those registered when it began, except those deregistered before their turn.

        The round ends when the notification is complete, which counts as FINISHED.
        """
        round_ = Round()
        for each in self._registered:
            if each not in self._registered:
                continue
            if is_complete(notification):
                break
            given = (notification, transaction) if each.takes_transaction else (notification,)
            try:
                receipt = _checked((yield partial(each.receive, *given)))
            except Exception as error:  # noqa: BLE001 - a recipient may raise anything; only that recipient has failed
                logger.warning("the recipient %s failed on %s", each, type(notification).__name__, exc_info=error)
                round_.fail(error)
                continue
            if round_.take(receipt):
                break
        if is_complete(notification):
            round_.take(ReceiptStatus.FINISHED)
        return round_


def is_complete(notification: Any) -> bool:
    """Whether a recipient has completed it; anything may be a notification, and not everything can be complete."""
    return bool(getattr(notification, "is_complete", False))


def is_due(notification: Any) -> bool:
    """Whether recipients are called now: it is ready, or has timed out, and they are called a last time."""
    return bool(getattr(notification, "timed_out", False) or getattr(notification, "is_ready_to_send", True))


def _is_same(one: Any, other: Any) -> bool:
    """Compare bound methods by equality: each access makes another object."""
    return one is other or (inspect.ismethod(one) and inspect.ismethod(other) and one == other)


def _checked(receipt: Any) -> ReceiptStatus:
    if checked_result(receipt) is None:
        return ReceiptStatus.NOT_PROCESSED
    if not isinstance(receipt, ReceiptStatus):
        raise TypeError(f"a recipient must answer with a ReceiptStatus or None, not {shown(receipt)}")
    return receipt


def _takes_two(receive: Callable[..., Any]) -> bool:
    """Whether it also takes a transaction; a parameter with a default is the recipient's own."""
    try:
        signature = inspect.signature(receive)
    except (TypeError, ValueError):
        return False
    fits = [count for count in (1, 2) if _binds(signature, count)]
    if not fits:
        raise InvalidArgumentError(
            f"a recipient must take the notification, or the notification and a transaction, not {signature}"
        )
    return fits == [2]


def _binds(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
