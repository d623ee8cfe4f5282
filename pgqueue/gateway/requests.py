"""Links on which clients send requests: tokens to ``$cbs``, and operations to the ``$management`` of a queue."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pgqueue.gateway import management
from pgqueue.gateway.amqp import sections as parts
from pgqueue.gateway.amqp import types
from pgqueue.gateway.amqp.performatives import Accepted, Attach
from pgqueue.gateway.amqp.types import Symbol
from pgqueue.gateway.conditions import Refusal, described, text_of
from pgqueue.gateway.entities import CBS, MANAGEMENT
from pgqueue.gateway.links import Delivery, IncomingLink

if TYPE_CHECKING:
    from pgqueue.gateway.session import Session


#: The largest request to ``$cbs``, in bytes: strangers send these, whose memory all clients share.
LARGEST_TOKEN = 65_536


class Request:
    """A request: its operation, its arguments, and where the answer goes."""

    def __init__(self, raw: bytes) -> None:
        sections = parts.sections_of(raw)
        fields = dict(zip(parts.FIELDS, sections.whole(parts.PROPERTIES, list), strict=False))
        place = sections.places.get(parts.PROPERTIES)
        self.properties = {str(key): value for key, value in sections.whole(parts.APPLICATION_PROPERTIES, dict).items()}
        self.operation = _text(self.properties.get("operation"))
        self.body: Any = None
        if sections.kind == parts.VALUE and sections.body:
            self.body, _ = types.decode(raw, sections.body[0][0])
        reply_to = fields.get("reply_to")
        self.reply_to = None if reply_to is None else str(reply_to)
        # with its type, as clients look for it
        self.id = b"\x40" if place is None else _first_of_list(raw, *place)

    def argument(self, name: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
        """An argument by its name. Raises Refusal if it has another type, or if there is none."""
        body = self.body if isinstance(self.body, dict) else {}
        value = body.get(name)
        if value is None and default is not ...:
            return default
        if not isinstance(value, kind) or isinstance(value, bool):
            raise Refusal("com.microsoft:argument-error", f"{self.operation} needs {name}, and not {value!r:.80}")
        return value


def _text(value: Any) -> str:
    """A text, which some SDKs send as bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _first_of_list(raw: bytes, begin: int, end: int) -> bytes:
    """The first value of a list, encoded."""
    first = begin + {0x45: 1, 0xC0: 3, 0xD0: 9}.get(raw[begin], 1)
    return raw[first : types.end_of(raw, first)] if first < end else b"\x40"


class RequestLink(IncomingLink):
    """A link on which a client sends requests. The answers go to a :class:`~pgqueue.gateway.links.ReplyLink`."""

    def __init__(self, session: Session, attach: Attach, address: str) -> None:
        super().__init__(session, attach, address)
        self._unanswered: set[Delivery] = set()

    @property
    def entity(self) -> str:
        """The entity that a token must cover; none for putting a token."""
        return "" if self.address == CBS else self.address

    @property
    def max_message_size(self) -> int:
        """How large a request may be, in bytes."""
        return min(super().max_message_size, LARGEST_TOKEN) if self.address == CBS else super().max_message_size

    async def open(self) -> None:
        """Check that the client may use the entity."""
        if self.entity:
            self.session.connection.grant_for(self.address)
        self.answer()

    def arrived(self, delivery: Delivery) -> None:
        """Answer a request. It is settled with its answer: those that wait are bounded by the credit and the memory."""
        request = Request(delivery.raw)
        self._unanswered.add(delivery)
        task = self.session.connection.spawn(self._answer(request, delivery))
        task.add_done_callback(lambda _: self._settle(delivery))  # also without an answer, if the connection has ended

    def _settle(self, delivery: Delivery) -> None:
        if delivery in self._unanswered:
            self._unanswered.remove(delivery)
            self.settle([delivery], Accepted())

    async def _answer(self, request: Request, delivery: Delivery) -> None:
        try:
            async with self.session.connection.requests:
                if self.address == CBS:
                    status, body = await self._put_token(request), None
                else:
                    status, body = await self._operate(request)
        except Exception as error:  # noqa: BLE001 - each request is answered
            self.session.connection.log(error, f"{request.operation} on {self.address}")
            condition, code = described(error)
            self._settle(delivery)
            self._reply(request, code, text_of(error), None, condition)
        else:
            self._settle(delivery)
            self._reply(request, status, "OK", body)

    async def _put_token(self, request: Request) -> HTTPStatus:
        if request.operation != "put-token":
            raise Refusal("amqp:not-implemented", f"$cbs has no operation {request.operation}")
        connection = self.session.connection
        grant = await connection.gateway.keys.check_token(_text(request.body))
        connection.grants[grant.path] = grant
        return HTTPStatus.ACCEPTED

    async def _operate(self, request: Request) -> tuple[HTTPStatus, Any]:
        grant = self.session.connection.grant_for(self.address)
        client = await self.session.connection.gateway.client_of(grant.key.role)
        operation = management.OPERATIONS.get(request.operation)
        if operation is None:
            raise Refusal(
                "amqp:not-implemented", f"the gateway has no operation {request.operation}", HTTPStatus.NOT_IMPLEMENTED
            )
        body = await operation(
            management.Place(client, self.address.removesuffix(MANAGEMENT), self.session.connection), request
        )
        return (HTTPStatus.NO_CONTENT if body is None else HTTPStatus.OK), body or {}

    def _reply(self, request: Request, status: int, text: str, body: Any, condition: str | None = None) -> None:
        link = self.session.connection.reply_link(self.address, request.reply_to)
        if link is None:
            return
        names = ("status-code", "status-description") if self.address == CBS else ("statusCode", "statusDescription")
        answers = {names[0]: types.int_(status), names[1]: text}
        if condition is not None:
            answers |= {"errorCondition": Symbol(condition), "error-condition": Symbol(condition)}
        properties = [b"\x40"] * 5 + [request.id]
        link.reply(
            parts.mark(parts.PROPERTIES) + types.assembled_list(properties)
            + parts.mark(parts.APPLICATION_PROPERTIES) + types.map_(answers)
            + parts.mark(parts.VALUE) + types.encode(body)
        )  # fmt: skip
