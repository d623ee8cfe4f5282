"""The sends of a sender, from the call to the outcome: what goes into the next flush, and which failures are unread."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

from pgqueue import telemetry
from pgqueue.errors import InvalidStateError, PGQueueError, SendError, logger
from pgqueue.model.body_type import BodyType
from pgqueue.model.encoding import EncodedMessage, encode
from pgqueue.model.message import Message, SequenceNumber
from pgqueue.model.policy import Tries

#: The limits of one flush: messages, and characters and bytes; a single message may be larger.
MESSAGES_AT_ONCE = 1_000
SIZE_AT_ONCE = 8_000_000

#: The number of unread failures that are kept before the next send raises them.
UNREAD_AT_MOST = 1_000


B = TypeVar("B", bound="Event")


class Event(Protocol):
    """An event that a thread or a task waits for."""

    def is_set(self) -> bool: ...

    def set(self) -> object: ...


class Outgoing:
    """One send: its encoded message, its span, and its outcome once that is known."""

    __slots__ = ("encoded", "event", "message", "outcome", "span")

    def __init__(self, message: Message, outbox: Outbox) -> None:
        self.message = message
        self.span = outbox.recorder.sending(outbox.queue)
        try:
            self.encoded = encode(message, self.span.trace, outbox.body_type)
        except BaseException as error:
            self.span.end(error)
            raise
        self.event: Event | None = None
        self.outcome: SequenceNumber | PGQueueError | None = None

    def settle(self, outcome: SequenceNumber | PGQueueError) -> None:
        self.outcome = outcome
        self.span.end(outcome)
        if self.event is not None:
            self.event.set()


class Pending:
    """The common part of the pending sends of both faces."""

    def __init__(self, send: Outgoing, outbox: Outbox) -> None:
        self.message = send.message
        self._send = send
        self._outbox = outbox

    def done(self) -> bool:
        """Whether there is an outcome, so that ``result()`` answers at once."""
        return self._send.outcome is not None


@dataclass
class Portion:
    """Sends that are stored together, all or none, and the number of failed attempts."""

    sends: Sequence[Outgoing]
    tries: Tries | None = None

    @property
    def messages(self) -> list[EncodedMessage]:
        return [send.encoded for send in self.sends]

    def halves(self) -> tuple[Portion, Portion]:
        middle = len(self.sends) // 2
        return Portion(self.sends[:middle]), Portion(self.sends[middle:])


class Outbox:
    """The sends of one sender. Several threads may fill it while one empties it.

    ``arrived`` is set when there is work for the thread or task that empties it; ``make_room`` is called with the
    number of settled sends.
    """

    def __init__(
        self, queue: str, arrived: Event, make_room: Callable[[int], object], body_type: BodyType | None = None
    ) -> None:
        self.queue = queue
        self.body_type = body_type
        self.recorder = telemetry.recorder()
        self._arrived = arrived
        self._make_room = make_room
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._waiting: deque[Outgoing] = deque()
        self._put_back: deque[Portion] = deque()
        self._out: dict[Outgoing, None] = {}
        self._unread: dict[Outgoing, None] = {}
        self._closed = False
        self._failure: BaseException | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing is in flight, and nothing more will come."""
        with self._lock:
            return self._closed and not self._out

    def check_process(self) -> None:
        """Refuses a forked child: a fork copies the sends, but not the thread that sends them."""
        if os.getpid() != self._process:
            raise InvalidStateError("this sender belongs to the process that forked: make one in this process")

    def check_open(self) -> None:
        self.check_process()
        if self._failure is not None:
            raise InvalidStateError("this sender has failed: make another with queue.sender()") from self._failure
        if self._closed:
            raise InvalidStateError("this sender is closed: make another with queue.sender()")
        if len(self._unread) >= UNREAD_AT_MOST:
            self.raise_unread()

    def put(self, send: Outgoing) -> None:
        with self._lock:
            self.check_open()
            self._out[send] = None
            self._waiting.append(send)
        if not self._arrived.is_set():
            self._arrived.set()

    def take(self) -> Portion | None:
        """Returns the next portion: first what was put back, then what waits, within the limits."""
        with self._lock:
            if self._put_back:
                return self._put_back.popleft()
            sends: list[Outgoing] = []
            size = 0
            while self._waiting and len(sends) < MESSAGES_AT_ONCE:
                size += self._waiting[0].encoded.size
                if sends and size > SIZE_AT_ONCE:
                    break
                sends.append(self._waiting.popleft())
            return Portion(sends) if sends else None

    def put_back(self, *portions: Portion) -> None:
        """Puts portions before all others, in this order."""
        with self._lock:
            self._put_back.extendleft(reversed(portions))

    def accept(self, portion: Portion, numbers: Sequence[SequenceNumber]) -> None:
        self._settle(zip(portion.sends, numbers, strict=True))

    def refuse(self, portion: Portion, error: PGQueueError) -> None:
        """Ends sends with one refusal of the database: one tracking id, but one error each, to be raised on its own."""
        self._settle((send, _copy(error)) for send in portion.sends)

    def fail(self, failure: BaseException) -> None:
        """The sender's loop has ended: no COMMIT was sent for what is in flight, and new sends are refused."""
        with self._lock:
            self._failure = failure
            self._waiting.clear()
            self._put_back.clear()
            out = list(self._out)
        error = PGQueueError(f"the sender has failed, and the message is not stored: {failure!r}")
        error.__cause__ = failure
        self.refuse(Portion(out), error)

    def close(self) -> None:
        self._closed = True
        self._arrived.set()

    def read(self, send: Outgoing) -> SequenceNumber:
        """Returns or raises the outcome of a send, which then counts as read."""
        assert send.outcome is not None, "it was waited for"
        self._unread.pop(send, None)
        if isinstance(send.outcome, PGQueueError):
            raise send.outcome
        return send.outcome

    def unread(self) -> SendError | None:
        """Returns the unread failures; they count as read from now on."""
        with self._lock:
            failures = [send.outcome for send in self._unread if isinstance(send.outcome, PGQueueError)]
            self._unread.clear()
        if not failures:
            return None
        return SendError(f"of the sends to {self.queue}, {len(failures)} failed with unread errors", failures)

    def raise_unread(self) -> None:
        error = self.unread()
        if error is not None:
            raise error

    def wait_for(self, send: Outgoing, make_event: Callable[[], B]) -> B | None:
        """The event that is set when the send has its outcome; None if it already has one."""
        with self._lock:
            if send.outcome is not None:
                return None
            send.event = send.event or make_event()
            return cast(B, send.event)

    def _settle(self, outcomes: Iterable[tuple[Outgoing, SequenceNumber | PGQueueError]]) -> None:
        settled = 0
        with self._lock:
            for send, outcome in outcomes:
                if self._out.pop(send, self) is self:  # an interruption came after it was settled
                    continue
                if isinstance(outcome, PGQueueError):
                    self._unread[send] = None
                send.settle(outcome)
                settled += 1
        if settled:
            self._make_room(settled)


def _copy(error: PGQueueError) -> PGQueueError:
    copy = type(error)(error.args[0], sqlstate=error.sqlstate, tracking_id=error.tracking_id)
    copy.__cause__ = error.__cause__
    return copy


def report(outbox: Outbox, error: BaseException | None) -> None:
    """At the end of a block: raise the unread failures, or add them to the exception being raised."""
    failures = outbox.unread()
    if failures is not None and error is None:
        raise failures
    if failures is not None and error is not None:
        reasons = "; ".join(sorted({str(failure) for failure in failures.exceptions}))
        error.add_note(f"{failures}: {reasons}")


def log_unread(outbox: Outbox) -> None:
    """Log the failures that cannot be read any more."""
    failures = outbox.unread()
    if failures is not None:
        logger.error(
            "a sender was not closed: %s", failures, extra={"queue": outbox.queue, "tracking_id": failures.tracking_id}
        )
