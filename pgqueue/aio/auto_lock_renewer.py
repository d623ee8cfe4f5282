"""Renewal of locks for applications with their own asynchronous receive loop."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import TracebackType
from typing import Self

from pgqueue.errors import InvalidArgumentError
from pgqueue.flows.locked import LockedMessage
from pgqueue.flows.sessions import AcceptedSession
from pgqueue.leases.lock_renewals import LockRenewals
from pgqueue.leases.renewals import OnFailure
from pgqueue.model.arguments import shown


class AutoLockRenewer:
    """Renews the locks of registered messages and sessions, in a thread and with a connection of its own.

    Each lock is renewed until the message is settled or the session released, for at most
    ``max_lock_renewal_duration``; then it expires. When a lock could not be renewed before it expired, or was found
    lost, ``on_lock_renew_failure(received, error)`` is called in that thread and its ``lock_lost`` is set. Use it in an
    ``async with`` block, or close it. Semantics of the AutoLockRenewer of Azure Service Bus.
    A blocked event loop does not stop the renewals.
    """

    def __init__(
        self,
        *,
        max_lock_renewal_duration: timedelta = timedelta(minutes=5),
        on_lock_renew_failure: OnFailure | None = None,
    ) -> None:
        self._keeper = LockRenewals(max_lock_renewal_duration, on_lock_renew_failure)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def register(self, received: LockedMessage | AcceptedSession) -> None:
        """Renews the lock of a message, or of a session, from now on.

        Raises:
            InvalidArgumentError: it is neither.
            InvalidStateError: the delivery is over or the session was released, or the renewer is closed.
        """
        if isinstance(received, AcceptedSession):
            self._keeper.keep_session(received)
        elif isinstance(received, LockedMessage):
            self._keeper.keep(received)
        else:
            raise InvalidArgumentError(f"received must be a received message or a session, not {shown(received)}")

    async def close(self) -> None:
        """Stops all renewals; the locks expire by themselves."""
        await asyncio.to_thread(self._keeper.close)
