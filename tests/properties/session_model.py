"""A queue that requires sessions, in plain Python. Times are in milliseconds.

The result of a receive is certain: the first messages of the session that were not handed out under its lock. Which
session an acceptor gets is not: the model defines which it may get, and when one must be found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

SECOND = 1000


@dataclass
class Message:
    """A message in a session, deferred in it, or among the dead letters."""

    number: int
    session_id: str
    delivery_count: int = 0
    token: str | None = None
    due: int = 0
    place: str = "waiting"


@dataclass
class Session:
    """The lock and the state of a session, and the open transactions that keep it from being accepted."""

    token: str | None = None
    locked_until: int = 0
    state: Any = None
    kept_by: list[Transaction] = field(default_factory=list)
    written_by: Transaction | None = None
    #: Since when it has been seen to be available; and until when acceptors may overlook it all the same.
    since: int | None = None
    overlooked_until: int = 0


@dataclass(eq=False)
class Transaction:
    """An open transaction: what it will have done, which messages it has settled, and the state that it sees."""

    effects: list[Callable[[], object]] = field(default_factory=list)
    settled: set[int] = field(default_factory=set)
    states: dict[str, Any] = field(default_factory=dict)


class Model:
    def __init__(self, max_delivery_count: int, now: int) -> None:
        self.max_delivery_count = max_delivery_count
        self.now = now
        self.messages: dict[int, Message] = {}
        self.sessions: dict[str, Session] = {}
        self.transactions: list[Transaction] = []

    def session(self, session_id: str) -> Session:
        return self.sessions.setdefault(session_id, Session())

    # Sending

    def send(self, numbers: Iterable[int], session_id: str, within: Transaction | None) -> None:
        self.session(session_id)
        for number in numbers:
            self._do(within, lambda number=number: self._add(number, session_id))  # type: ignore[misc]

    def _add(self, number: int, session_id: str) -> None:
        self.messages[number] = Message(number, session_id)

    # Accepting

    def waiting(self, session_id: str) -> list[Message]:
        return sorted(
            (m for m in self.messages.values() if m.session_id == session_id and m.place == "waiting"),
            key=lambda message: message.number,
        )

    def is_free(self, session_id: str) -> bool:
        """Whether the session is not locked, and no transaction keeps it."""
        session = self.session(session_id)
        return not session.kept_by and (session.token is None or session.locked_until <= self.now)

    def is_available(self, session_id: str) -> bool:
        """Whether an acceptor of the next session may get this one."""
        waiting = self.waiting(session_id)
        return self.is_free(session_id) and bool(waiting) and self._is_due(waiting[0])

    def check_locks(self, tokens: dict[str, str]) -> None:
        """Whether these are the locks. A session may be forgotten whose lock has expired, if it has nothing to keep."""
        for session_id, session in self.sessions.items():
            if session.token is not None and session_id not in tokens:
                assert self.is_free(session_id), f"{session_id} was forgotten"
                assert not self.waiting(session_id), f"{session_id} was forgotten"
                assert session.state is None, f"{session_id} was forgotten"
                session.token = None
        held = {session_id: session.token for session_id, session in self.sessions.items() if session.token}
        assert tokens == held

    def is_in_hand(self, message: Message) -> bool:
        """Whether a message was handed out under a lock that has not expired."""
        session = self.session(message.session_id)
        return message.token is not None and message.token == session.token and session.locked_until > self.now

    def observe(self) -> None:
        """Note which sessions are available. One that rests may have been put off until the end of its rest."""
        for session_id, session in self.sessions.items():
            if not self.is_available(session_id):
                session.since = None
            elif session.since is None:
                session.since = self.now
            rests = [message.due for message in self.waiting(session_id) if message.token is None]
            session.overlooked_until = max(session.overlooked_until, *rests, 0)

    def must_be_found(self) -> list[str]:
        return [
            session_id
            for session_id, session in self.sessions.items()
            if session.since is not None
            and session.since + SECOND < self.now
            and session.overlooked_until + SECOND < self.now
        ]

    def accept(self, session_id: str, token: str, until: int) -> None:
        session = self.session(session_id)
        session.token, session.locked_until = token, until
        session.overlooked_until = max(session.overlooked_until, until)

    def renew(self, session_id: str, until: int) -> None:
        session = self.session(session_id)
        if session.written_by is None:
            session.locked_until = until
            session.overlooked_until = max(session.overlooked_until, until)

    def release(self, session_id: str, token: str) -> bool:
        session = self.session(session_id)
        if session.token != token or session.written_by is not None:
            return False
        session.token, session.overlooked_until = None, 0
        return True

    # Receiving

    def receive(self, session_id: str, at_most: int) -> list[int]:
        """The numbers of the messages that must come now; what was delivered too often is dead-lettered instead."""
        token = self.session(session_id).token
        while True:
            found = []
            for message in [m for m in self.waiting(session_id) if m.token != token][:at_most]:
                if not self._is_due(message):
                    break
                found.append(message)
            exhausted = [message for message in found if message.delivery_count >= self.max_delivery_count]
            if not exhausted:
                break
            for message in exhausted:
                self._bury(message)
        for message in found:
            self._hand_out(message, token)
        return [message.number for message in found]

    def receive_deferred(self, session_id: str, number: int) -> list[int]:
        message, token = self.messages[number], self.session(session_id).token
        if message.token == token:
            return []
        if message.delivery_count >= self.max_delivery_count:
            self._bury(message)
            return []
        self._hand_out(message, token)
        return [number]

    # Settling

    def proves(self, number: int, token: str, within: Transaction | None) -> bool:
        message = self.messages.get(number)
        if message is None or message.place == "dead" or (within is not None and number in within.settled):
            return False
        return message.token == token == self.session(message.session_id).token

    def settle(self, verb: str, number: int, delay: int, within: Transaction | None) -> None:
        message = self.messages[number]
        if within is not None:
            within.settled.add(number)
            self.keep(message.session_id, within)
        due = self.now + delay if delay else 0
        self._do(within, lambda: self._settle(verb, message, due))

    def keep(self, session_id: str, within: Transaction) -> None:
        """A transaction that has proved the lock keeps others from accepting the session."""
        self.session(session_id).kept_by.append(within)

    def set_state(self, session_id: str, state: Any, within: Transaction | None) -> None:
        session = self.session(session_id)
        if within is not None:
            session.written_by = within
            within.states[session_id] = state
            self.keep(session_id, within)
        self._do(within, lambda: setattr(session, "state", state))

    # Transactions

    def begin(self) -> Transaction:
        transaction = Transaction()
        self.transactions.append(transaction)
        return transaction

    def end(self, transaction: Transaction, *, commits: bool) -> None:
        self.transactions.remove(transaction)
        for session in self.sessions.values():
            session.kept_by = [keeper for keeper in session.kept_by if keeper is not transaction]
            if session.written_by is transaction:
                session.written_by = None
        for effect in transaction.effects if commits else ():
            effect()

    def _do(self, within: Transaction | None, effect: Callable[[], object]) -> None:
        if within is None:
            effect()
        else:
            within.effects.append(effect)

    def _settle(self, verb: str, message: Message, due: int) -> None:
        if verb == "dead_letter" or (verb == "abandon" and message.delivery_count >= self.max_delivery_count):
            self._bury(message)
            return
        message.token, message.due = None, due
        match verb:
            case "complete":
                del self.messages[message.number]
            case "defer":
                message.place = "deferred"
                message.delivery_count -= 1

    @staticmethod
    def _bury(message: Message) -> None:
        message.place, message.token = "dead", None

    @staticmethod
    def _hand_out(message: Message, token: str | None) -> None:
        message.token, message.due = token, 0
        message.delivery_count += 1

    def _is_due(self, message: Message) -> bool:
        return message.token is not None or message.due <= self.now
