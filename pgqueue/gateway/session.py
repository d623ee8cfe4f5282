"""Sessions: links that share two windows and a sequence of deliveries."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pgqueue.gateway import conditions
from pgqueue.gateway.amqp import types
from pgqueue.gateway.amqp.composite import RECEIVER, SENDER, Composite, part_of
from pgqueue.gateway.amqp.performatives import Attach, Begin, Detach, Disposition, End, Flow, Transfer
from pgqueue.gateway.conditions import Refusal, error_of
from pgqueue.gateway.links import WRAP, IncomingLink, Link, OutgoingLink, left

if TYPE_CHECKING:
    from pgqueue.gateway.connection import Connection

#: How many transfers a client may send before the gateway extends its window.
WINDOW = 2048

#: With more waiting frames than that, each of 64 KiB at the most, a client gets no more messages.
CONGESTED = 64


class Session:
    """A session of a connection, which the client has begun on a channel."""

    def __init__(self, connection: Connection, channel: int, begin: Begin) -> None:
        self.connection = connection
        self.channel = channel
        self.links: dict[int, Link] = {}
        self._next_incoming = begin.next_outgoing_id
        self._incoming_window = WINDOW
        self._next_outgoing = 0
        self._outgoing_window = begin.incoming_window
        self._next_delivery = 0
        self._outgoing: dict[int, OutgoingLink] = {}
        self._waiting: deque[tuple[Transfer, bytes]] = deque()
        self.write(Begin(channel, 0, WINDOW, WINDOW, handle_max=connection.gateway.settings.max_links - 1))

    @property
    def is_congested(self) -> bool:
        """Whether the client does not keep up with what is sent."""
        return len(self._waiting) > CONGESTED

    def write(self, performative: Composite, payload: bytes = b"") -> None:
        """Send a performative on the channel."""
        self.connection.write(self.channel, performative, payload)

    def handle(self, performative: Any, payload: bytes) -> None:
        """Handle what came on the channel. Raises Refusal, and DecodeError."""
        match performative:
            case Transfer():
                self._transferred(performative, payload)
            case Disposition():
                self._disposed(performative)
            case Flow():
                self._flowed(performative)
            case Attach():
                self._attach(performative)
            case Detach():
                self._detach(performative)
            case End():
                self.close()
                self.write(End())
                del self.connection.sessions[self.channel]

    def holds(self, link: Link) -> bool:
        """Whether a link is attached here still."""
        return self.links.get(link.handle) is link

    def forget(self, link: Link) -> None:
        """A link is detached."""
        if self.holds(link):
            del self.links[link.handle]
            self.connection.gateway.links -= 1
            self._outgoing = {known: to for known, to in self._outgoing.items() if to is not link}
            was_congested = self.is_congested
            self._waiting = deque(waiting for waiting in self._waiting if waiting[0].handle != link.handle)
            link.closed()
            if was_congested and not self.is_congested:
                self.credited()

    def credited(self) -> None:
        """Go on with all links, which have waited for the client."""
        for link in [one for one in self.links.values() if isinstance(one, OutgoingLink)]:
            link.credited()

    def close(self) -> None:
        """The session has ended, or its connection."""
        self._waiting.clear()
        for link in list(self.links.values()):
            self.forget(link)

    # -- from the client -----------------------------------------------------------------------------------------------

    def _attach(self, attach: Attach) -> None:
        gateway = self.connection.gateway
        if attach.handle in self.links:
            raise Refusal("amqp:session:handle-in-use", f"the handle {attach.handle} is in use")
        link = self.connection.link_for(self, attach)
        if gateway.links >= gateway.settings.max_links:
            link.detach(error_of(Refusal(conditions.LIMIT, "the gateway has as many links as it may: max_links")))
            return
        self.links[attach.handle] = link
        gateway.links += 1
        self.connection.spawn(self._open(link))

    async def _open(self, link: Link) -> None:
        try:
            await link.open()
        except Exception as error:  # noqa: BLE001 - a link that cannot be opened is refused, whatever it is
            self.connection.log(error, f"link {link.attach.name} to {link.address}")
            if self.holds(link):
                link.detach(error_of(error))

    def _detach(self, detach: Detach) -> None:
        link = self.links.get(detach.handle)
        if link is not None:
            self.forget(link)
            if not link.is_attached:  # each detach answers an attach
                self.write(Attach(link.attach.name, link.handle, link.role, initial_delivery_count=0))
            self.write(Detach(detach.handle, closed=True))

    def _transferred(self, transfer: Transfer, payload: bytes) -> None:
        self._next_incoming = (self._next_incoming + 1) % WRAP
        self._incoming_window -= 1
        link = self.links.get(transfer.handle)
        if isinstance(link, IncomingLink):
            transfer.state = part_of(transfer.state)
            try:
                link.transfer(transfer, payload)
            except Refusal as refusal:
                link.detach(error_of(refusal))
        if self._incoming_window < WINDOW // 2:
            self._incoming_window = WINDOW
            self.write(Flow(self._next_incoming, WINDOW, self._next_outgoing, WINDOW))

    def _flowed(self, flow: Flow) -> None:
        seen = flow.next_incoming_id if flow.next_incoming_id is not None else 0
        self._outgoing_window = left(seen, flow.incoming_window, self._next_outgoing)
        was_congested = self.is_congested
        self._send_waiting()
        if was_congested and not self.is_congested:
            self.credited()
        if flow.handle is None:
            if flow.echo:
                self.write(Flow(self._next_incoming, self._incoming_window, self._next_outgoing, WINDOW))
        elif (link := self.links.get(flow.handle)) is not None:
            link.flow(flow)

    def _disposed(self, disposition: Disposition) -> None:
        if disposition.role is not RECEIVER:
            return
        state = part_of(disposition.state)
        last = disposition.first if disposition.last is None else disposition.last
        for delivery_id in self._deliveries(disposition.first, last):
            self._outgoing[delivery_id].disposed(delivery_id, disposition, state)

    def _deliveries(self, first: int, last: int) -> list[int]:
        """Of a range, which the client may make as long as it likes, the deliveries that it can mean."""
        if first == last:
            return [first] if first in self._outgoing else []
        return [known for known in self._outgoing if first <= known <= last]

    # -- to the client -------------------------------------------------------------------------------------------------

    def flow(self, handle: int, **state: Any) -> None:
        """Send the state of a link."""
        self.write(Flow(self._next_incoming, self._incoming_window, self._next_outgoing, WINDOW, handle, **state))

    def transfer(self, handle: int, tag: bytes, raw: bytes, *, settled: bool) -> int:
        """Send a message, in as many frames as it takes; returns the id of the delivery."""
        delivery_id = self._next_delivery
        self._next_delivery = (delivery_id + 1) % WRAP
        if not settled:
            link = self.links[handle]
            assert isinstance(link, OutgoingLink)
            self._outgoing[delivery_id] = link
        room = self.connection.max_frame_size - 64
        first = Transfer(handle, delivery_id, tag, 0, settled, more=len(raw) > room)
        self._waiting.append((first, raw[:room]))
        for begin in range(room, len(raw), room):
            more = Transfer(handle, more=begin + room < len(raw))
            self._waiting.append((more, raw[begin : begin + room]))
        self._send_waiting()
        return delivery_id

    def settled(self, delivery_id: int) -> None:
        """Forget a delivery that both sides have settled."""
        self._outgoing.pop(delivery_id, None)

    def dispose(self, role: bool, delivery_ids: Iterable[int], state: Any) -> None:
        """Send the state of deliveries, in as few frames as possible."""
        encoded = types.Encoded(types.encode(state))
        for _, run in groupby(enumerate(sorted(delivery_ids)), lambda place: place[1] - place[0]):
            ids = [delivery_id for _, delivery_id in run]
            self.write(Disposition(role, ids[0], ids[-1], settled=True, state=encoded))
        if role is SENDER:
            for delivery_id in delivery_ids:
                self.settled(delivery_id)

    def _send_waiting(self) -> None:
        while self._waiting and self._outgoing_window:
            self.write(*self._waiting.popleft())
            self._next_outgoing = (self._next_outgoing + 1) % WRAP
            self._outgoing_window -= 1
