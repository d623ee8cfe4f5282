"""Queues, topics, subscriptions and rules over HTTP, as ``ServiceBusAdministrationClient`` manages them."""

from __future__ import annotations

import re
import socket
from asyncio import create_task
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pgqueue import RuleProperties
from pgqueue.aio import QueueClient
from pgqueue.errors import PGQueueError, QueueNotFoundError, RuleNotFoundError, TopicNotFoundError
from pgqueue.gateway import atom
from pgqueue.gateway.conditions import ARGUMENT, NOT_FOUND, Refusal, described, log, text_of
from pgqueue.gateway.entities import entity_of
from pgqueue.gateway.gateway import Gateway
from pgqueue.gateway.keys import granted

MOST = 100
LARGEST = 1024 * 1024

BELOW_A_TOPIC = re.compile(
    r"(?P<topic>.+)/subscriptions(?:/(?P<subscription>[^/]+)(?:/(?P<rules>rules)(?:/(?P<rule>[^/]+))?)?)?",
    re.IGNORECASE,
)

Answer = Coroutine[Any, Any, tuple[HTTPStatus, ET.Element | None]]


class Call:
    """A request: what it is about, with the rights of a role."""

    def __init__(self, request: Request, client: QueueClient, body: bytes) -> None:
        self.client = client
        self.body = body
        self.path = unquote(request.url.path).strip("/")
        self.address = str(request.url.replace(query=""))
        self.is_update = request.headers.get("if-match") == "*"
        self._query = request.query_params
        self._next: str | None = None

    def page(self, found: list[Any]) -> list[Any]:
        """The part of a list that is asked for."""
        try:
            skip, top = (
                max(int(self._query.get(name, default)), 0) for name, default in (("$skip", 0), ("$top", MOST))
            )
        except ValueError:
            raise Refusal(ARGUMENT, "$skip and $top are numbers") from None
        if skip + top < len(found):
            self._next = f"{self.address}?$skip={skip + top}&$top={top}"
        return found[skip : skip + top]

    def entry(self, name: str, content: ET.Element) -> ET.Element:
        """An entry of a list, or the only one."""
        return atom.entry(name, self.address, content)

    def feed(self, title: str, entries: list[ET.Element]) -> tuple[HTTPStatus, ET.Element]:
        """The answer that is a list."""
        return HTTPStatus.OK, atom.feed(title, self.address, entries, self._next)

    def content(self, *kinds: str) -> tuple[str, ET.Element]:
        """The description that was sent. Raises Refusal."""
        kind, element = atom.content_of(self.body)
        if kind not in kinds:
            raise Refusal(ARGUMENT, f"{self.path} takes a {' or a '.join(kinds)}, not a {kind}")
        return kind, element


# -- queues and topics -------------------------------------------------------------------------------------------------


async def list_entities(call: Call) -> Any:
    """The queues, or the topics."""
    if call.path.lower() == "$resources/queues":
        queues = [one for one in await call.client.list_queues() if "/Subscriptions/" not in one.name]
        counts = {one.name: one for one in await call.client.list_queues_runtime_properties()}
        entries = [
            call.entry(one.name, atom.description("QueueDescription", one, counts.get(one.name)))
            for one in call.page(queues)
        ]
        return call.feed("Queues", entries)
    topics = call.page(await call.client.list_topics())
    return call.feed("Topics", [call.entry(one.name, _topic(one)) for one in topics])


def _topic(topic: Any) -> ET.Element:
    return atom.description("TopicDescription", topic, None, SizeInBytes=0, SubscriptionCount=topic.subscriptions)


async def get_entity(call: Call) -> Any:
    """A queue or a topic."""
    try:
        queue = await call.client.get_queue(call.path)
        counts = await call.client.get_queue_runtime_properties(call.path)
        return HTTPStatus.OK, call.entry(call.path, atom.description("QueueDescription", queue, counts))
    except QueueNotFoundError:
        try:
            return HTTPStatus.OK, call.entry(call.path, _topic(await call.client.get_topic(call.path)))
        except TopicNotFoundError:
            raise Refusal(NOT_FOUND, f"there is no queue and no topic {call.path!r}") from None


async def put_entity(call: Call) -> Any:
    """Create or change a queue or a topic."""
    kind, element = call.content("QueueDescription", "TopicDescription")
    settings = atom.settings_of(kind, element)
    client, is_queue = call.client, kind == "QueueDescription"
    if call.is_update:
        known: Any = await (client.get_queue if is_queue else client.get_topic)(call.path)
        await (client.update_queue if is_queue else client.update_topic)(call.path, **_changed(settings, known))
    else:
        await (client.create_queue if is_queue else client.create_topic)(call.path, **_given(settings))
    _, entry = await get_entity(call)
    return HTTPStatus.OK if call.is_update else HTTPStatus.CREATED, entry


async def delete_entity(call: Call) -> Any:
    """Delete a queue or a topic."""
    try:
        await call.client.delete_queue(call.path)
    except QueueNotFoundError:
        await call.client.delete_topic(call.path)
    return HTTPStatus.OK, None


def _given(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _changed(settings: dict[str, Any], known: Any) -> dict[str, Any]:
    """The settings that differ: some cannot be changed, and clients send all of them, as they were shown."""
    return {name: value for name, value in settings.items() if value != atom.as_read(name, getattr(known, name))}


# -- subscriptions and rules -------------------------------------------------------------------------------------------


async def list_subscriptions(call: Call, topic: str) -> Any:
    """The subscriptions of a topic."""
    found = call.page(await call.client.list_subscriptions(topic))
    return call.feed("Subscriptions", [call.entry(one.name, await _subscription(call, one)) for one in found])


async def _subscription(call: Call, found: Any) -> ET.Element:
    counts = await call.client.get_queue_runtime_properties(found.queue.name)
    return atom.description("SubscriptionDescription", found.queue, counts)


async def get_subscription(call: Call, topic: str, subscription: str) -> Any:
    """A subscription."""
    found = await call.client.get_subscription(topic, subscription)
    return HTTPStatus.OK, call.entry(subscription, await _subscription(call, found))


async def put_subscription(call: Call, topic: str, subscription: str) -> Any:
    """Create or change a subscription."""
    kind, element = call.content("SubscriptionDescription")
    settings = atom.settings_of(kind, element)
    if call.is_update:
        known = await call.client.get_subscription(topic, subscription)
        await call.client.update_queue(known.queue.name, **_changed(settings, known.queue))
    else:
        first = element.find(f"{{{atom.SB}}}DefaultRuleDescription")
        name, filter, properties = ("$Default", None, None) if first is None else atom.rule_of(first)
        await call.client.create_subscription(
            topic, subscription, filter=filter, set_properties=properties, **_given(settings)
        )
        if name != "$Default":
            await call.client.create_rule(topic, subscription, name, filter=filter, set_properties=properties)
            await call.client.delete_rule(topic, subscription, "$Default")
    _, entry = await get_subscription(call, topic, subscription)
    return HTTPStatus.OK if call.is_update else HTTPStatus.CREATED, entry


async def delete_subscription(call: Call, topic: str, subscription: str) -> Any:
    """Delete a subscription."""
    await call.client.delete_subscription(topic, subscription)
    return HTTPStatus.OK, None


async def list_rules(call: Call, topic: str, subscription: str) -> Any:
    """The rules of a subscription."""
    found = call.page(await call.client.list_rules(topic, subscription))
    return call.feed("Rules", [call.entry(one.name, atom.rule_description(one)) for one in found])


async def get_rule(call: Call, topic: str, subscription: str, rule: str) -> Any:
    """A rule."""
    found = await _rule(call, topic, subscription, rule)
    return HTTPStatus.OK, call.entry(rule, atom.rule_description(found))


async def _rule(call: Call, topic: str, subscription: str, rule: str) -> RuleProperties:
    for found in await call.client.list_rules(topic, subscription):
        if found.name == rule:
            return found
    raise RuleNotFoundError(f"subscription {subscription} of {topic} has no rule {rule!r}")


async def put_rule(call: Call, topic: str, subscription: str, rule: str) -> Any:
    """Create a rule, or replace it."""
    _, element = call.content("RuleDescription")
    _, filter, properties = atom.rule_of(element)
    create = partial(call.client.create_rule, topic, subscription, rule)
    if not call.is_update:
        await create(filter=filter, set_properties=properties)
    else:
        former = await _rule(call, topic, subscription, rule)
        await call.client.delete_rule(topic, subscription, rule)
        try:
            await create(filter=filter, set_properties=properties)
        except PGQueueError:
            await create(filter=former.filter, set_properties=former.set_properties)
            raise
    _, entry = await get_rule(call, topic, subscription, rule)
    return HTTPStatus.OK if call.is_update else HTTPStatus.CREATED, entry


async def delete_rule(call: Call, topic: str, subscription: str, rule: str) -> Any:
    """Delete a rule."""
    await call.client.delete_rule(topic, subscription, rule)
    return HTTPStatus.OK, None


async def get_namespace(call: Call) -> Any:
    """Describe the namespace, which is a database."""
    times = {"CreatedTime": "2020-01-01T00:00:00Z", "ModifiedTime": "2020-01-01T00:00:00Z"}
    content = atom.element("NamespaceInfo", **times, MessagingSKU="Premium", MessagingUnits="1", Name="pgqueue",
                           NamespaceType="Messaging")  # fmt: skip
    return HTTPStatus.OK, call.entry("pgqueue", content)


#: By what a path names, and by the method.
OPERATIONS: dict[tuple[str, str], Callable[..., Answer]] = {
    ("entity", "GET"): get_entity, ("entity", "PUT"): put_entity, ("entity", "DELETE"): delete_entity,
    ("subscriptions", "GET"): list_subscriptions,
    ("subscription", "GET"): get_subscription, ("subscription", "PUT"): put_subscription,
    ("subscription", "DELETE"): delete_subscription,
    ("rules", "GET"): list_rules,
    ("rule", "GET"): get_rule, ("rule", "PUT"): put_rule, ("rule", "DELETE"): delete_rule,
    ("entities", "GET"): list_entities,
    ("namespace", "GET"): get_namespace,
}  # fmt: skip


def operation_of(path: str, method: str) -> tuple[Callable[..., Answer], dict[str, str]]:
    """The operation that a request asks for, and the names in its path. Raises Refusal."""
    names: dict[str, str] = {}
    if found := BELOW_A_TOPIC.fullmatch(path):
        names = {name: value for name, value in found.groupdict().items() if value is not None and name != "rules"}
        kind = (
            "rule"
            if "rule" in names
            else "rules"
            if found["rules"]
            else "subscription"
            if "subscription" in names
            else "subscriptions"
        )
    elif path.lower() in ("$resources/queues", "$resources/topics"):
        kind = "entities"
    else:
        kind = "namespace" if path.lower() == "$namespaceinfo" else "entity"
    if (kind, method) not in OPERATIONS:
        raise Refusal("amqp:not-allowed", f"there is no {method} of /{path}", HTTPStatus.METHOD_NOT_ALLOWED)
    return OPERATIONS[kind, method], names


def application(gateway: Gateway) -> Starlette:
    """The application of ASGI."""

    async def answer(request: Request) -> Response:
        try:
            status, element = await _answer(gateway, request)
        except Exception as error:  # noqa: BLE001 - each request is answered
            log(error, f"{request.method} {request.url.path}")
            status = described(error)[1]
            return Response(atom.error(status, text_of(error)), status, media_type="application/xml")
        body = b"" if element is None else ET.tostring(element, xml_declaration=True, encoding="utf-8")
        return Response(body, status, media_type="application/atom+xml;type=entry;charset=utf-8")

    async def ready(_: Request) -> Response:
        return Response("stopping\n" if gateway.is_stopping else "ready\n", 503 if gateway.is_stopping else 200)

    async def metrics(_: Request) -> Response:
        figures = {
            "pgqueue_gateway_connections": len(gateway.connections),
            "pgqueue_gateway_links": gateway.links,
            "pgqueue_gateway_messages_held": len(gateway.held),
            "pgqueue_gateway_sessions_held": sum(len(one.accepted) for one in gateway.connections),
        }
        text = "".join(f"# TYPE {name} gauge\n{name} {value}\n" for name, value in figures.items())
        return Response(text, media_type="text/plain; version=0.0.4")

    return Starlette(
        routes=[
            Route("/healthz/ready", ready),
            Route("/metrics", metrics),
            Route("/{path:path}", answer, methods=["GET", "PUT", "DELETE"]),
        ]
    )


async def _answer(gateway: Gateway, request: Request) -> Any:
    grant = await gateway.keys.check_token(request.headers.get("authorization", ""))
    path = unquote(request.url.path).strip("/")
    granted([grant], entity_of(path) if grant.path else "", gateway.keys)
    operation, names = operation_of(path, request.method)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST:
            raise Refusal(ARGUMENT, f"the body is larger than {LARGEST} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    client = (await gateway.client_of(grant.key.role)).client
    return await operation(Call(request, client, bytes(body)), **names)


class Server(uvicorn.Server):
    """A server that leaves signals to the gateway."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


@asynccontextmanager
async def listening(gateway: Gateway) -> AsyncIterator[tuple[str, int]]:
    """Serve in the block; yields where it listens. Raises OSError."""
    host, port = gateway.settings.administration or ("127.0.0.1", 0)
    listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    settings = gateway.settings
    config = uvicorn.Config(
        application(gateway), log_level="warning", server_header=False, lifespan="off", timeout_graceful_shutdown=2,
        ssl_certfile=settings.certificate, ssl_keyfile=settings.private_key,
    )  # fmt: skip
    server = Server(config)
    task = create_task(server.serve([listening]))
    try:
        yield listening.getsockname()[:2]
    finally:
        server.should_exit = True
        await task
