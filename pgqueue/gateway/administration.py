"""Queues, topics, subscriptions and rules over HTTP, as ``ServiceBusAdministrationClient`` manages them."""

from __future__ import annotations

import re
import socket
from asyncio import create_task
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pgqueue import CorrelationFilter
from pgqueue.aio import QueueClient
from pgqueue.errors import PGQueueError, QueueNotFoundError, RuleNotFoundError, TopicNotFoundError
from pgqueue.gateway import atom
from pgqueue.gateway.conditions import ARGUMENT, NOT_ALLOWED, NOT_FOUND, Refusal, described, log, text_of
from pgqueue.gateway.entities import entity_of
from pgqueue.gateway.gateway import Gateway
from pgqueue.gateway.keys import granted

MOST = 100
LARGEST = 1024 * 1024


class Entities:
    """The entities of a kind, with the rights of a role; ``within`` names what they belong to."""

    noun, kind = "", ""

    def __init__(self, client: QueueClient, host: str, *within: str) -> None:
        self.client, self.host, self.within = client, host, within

    def verb(self, verb: str) -> Callable[..., Any]:
        """A method of the client for entities of this kind."""
        return partial(getattr(self.client, f"{verb}_{self.noun}"), *self.within)

    async def list(self) -> list[Any]:
        found: list[Any] = await getattr(self.client, f"list_{self.noun}s")(*self.within)
        return found

    async def get(self, name: str) -> Any:
        return await self.verb("get")(name)

    async def create(self, name: str, given: ET.Element) -> None:
        await self.verb("create")(name, **self.settings(given))

    async def update(self, name: str, given: ET.Element) -> None:
        await self.verb("update")(name, **self.settings(given, await self.get(name)))

    async def delete(self, name: str) -> None:
        await self.verb("delete")(name)

    def settings(self, given: ET.Element, former: Any = None) -> dict[str, Any]:
        """The settings in a description, or those that differ from the former ones. Raises Refusal."""
        return atom.settings_of(given, former and self.queue(former))

    async def describe(self, found: Sequence[Any], *, is_one: bool) -> Iterable[ET.Element]:
        """The descriptions of what was found, and what is counted."""
        queues = [self.queue(one) for one in found]
        runtime = self.client.get_queue_runtime_properties, self.client.list_queues_runtime_properties
        counts = [await runtime[0](queues[0].name)] if is_one else await runtime[1]()
        known = {one.name: one for one in counts}
        return [atom.description(self.kind, queue, known.get(queue.name), self.host) for queue in queues]

    def queue(self, found: Any) -> Any:
        """Where the settings are."""
        return found


class Queues(Entities):
    """The queues, without those of subscriptions."""

    noun, kind = "queue", atom.QUEUE

    async def list(self) -> list[Any]:
        return [one for one in await super().list() if "/Subscriptions/" not in one.name]


class Topics(Entities):
    """The topics. Rules are counted only for one: there is a statement for each subscription."""

    noun, kind = "topic", atom.TOPIC

    async def describe(self, found: Sequence[Any], *, is_one: bool) -> Iterable[ET.Element]:
        counts = await self._rules(found[0].name) if is_one else {}
        return [
            atom.description(self.kind, one, None, self.host, SubscriptionCount=one.subscriptions, **counts)
            for one in found
        ]

    async def _rules(self, topic: str) -> dict[str, int]:
        within = [(topic, one.name) for one in await self.client.list_subscriptions(topic)]
        rules = [rule for names in within for rule in await self.client.list_rules(*names)]
        correlation = sum(isinstance(rule.filter, CorrelationFilter) for rule in rules)
        return {"SqlFilterCount": len(rules) - correlation, "CorrelationFilterCount": correlation}


class Subscriptions(Entities):
    """The subscriptions of a topic."""

    noun, kind = "subscription", atom.SUBSCRIPTION

    def queue(self, found: Any) -> Any:
        return found.queue

    async def create(self, name: str, given: ET.Element) -> None:
        first = given.find(f"{atom.SB}DefaultRuleDescription")
        rule, what = ("$Default", {}) if first is None else atom.rule_of(first)
        await self.verb("create")(name, **what, **self.settings(given))
        if rule != "$Default":
            rules = Rules(self.client, self.host, *self.within, name)
            await rules.verb("create")(rule, **what)
            await rules.delete("$Default")


class Rules(Entities):
    """The rules of a subscription."""

    noun, kind = "rule", atom.RULE

    async def get(self, name: str) -> Any:
        for found in await self.list():
            if found.name == name:
                return found
        raise RuleNotFoundError(f"subscription {'/'.join(self.within)} has no rule {name!r}")

    async def update(self, name: str, given: ET.Element) -> None:
        former, settings = await self.get(name), self.settings(given)
        await self.delete(name)
        try:
            await self.verb("create")(name, **settings)
        except PGQueueError:
            await self.verb("create")(name, filter=former.filter, set_properties=former.set_properties)
            raise

    def settings(self, given: ET.Element, former: Any = None) -> dict[str, Any]:
        return atom.rule_of(given)[1]

    async def describe(self, found: Sequence[Any], *, is_one: bool) -> Iterable[ET.Element]:
        return map(atom.rule_description, found)


#: The entities that a path names: one in the last group, or all.
PATHS: tuple[tuple[re.Pattern[str], tuple[type[Entities], ...]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), kinds)
    for pattern, kinds in (
        (r"\$resources/queues()", (Queues,)),
        (r"\$resources/topics()", (Topics,)),
        (r"(.+)/subscriptions/([^/]+)/rules(?:/([^/]+))?", (Rules,)),
        (r"(.+)/subscriptions(?:/([^/]+))?", (Subscriptions,)),
        (r"(.+)", (Queues, Topics)),
    )
)


async def operate(client: QueueClient, request: Request, body: bytes) -> tuple[HTTPStatus, ET.Element | None]:
    """Do what a request asks for. Raises Refusal."""
    path, method = unquote(request.url.path).strip("/"), request.method
    address = str(request.url.replace(query=""))
    if path.lower() == "$namespaceinfo" and method == "GET":
        return HTTPStatus.OK, atom.entry("pgqueue", address, atom.namespace("pgqueue"))
    found = ((named.groups(), kinds) for pattern, kinds in PATHS if (named := pattern.fullmatch(path)))
    (*within, name), kinds = next(found, (("",), ()))
    choices = [kind(client, request.url.netloc, *within) for kind in kinds]
    if not choices or (method != "GET" and not name):
        raise Refusal(NOT_ALLOWED, f"there is no {method} of /{path}", HTTPStatus.METHOD_NOT_ALLOWED)
    if not name:
        return HTTPStatus.OK, await _feed(choices[0], address, request.query_params)
    status = HTTPStatus.OK
    if method == "PUT":
        given = atom.content_of(body)
        choices = [one for one in choices if one.kind == atom.kind_of(given)]
        if not choices:
            raise Refusal(ARGUMENT, f"{path} takes no {atom.kind_of(given)}")
        if request.headers.get("if-match") == "*":
            await choices[0].update(name, given)
        else:
            await choices[0].create(name, given)
            status = HTTPStatus.CREATED
    entities, one = await _find(choices, name)
    if method == "DELETE":
        await entities.delete(name)
        return HTTPStatus.OK, None
    (content,) = await entities.describe([one], is_one=True)
    return status, atom.entry(name, address, content)


async def _find(choices: list[Entities], name: str) -> tuple[Entities, Any]:
    """An entity of this name, and of which kind it is. Raises Refusal."""
    for entities in choices:
        try:
            return entities, await entities.get(name)
        except (QueueNotFoundError, TopicNotFoundError):
            if len(choices) == 1:
                raise
    raise Refusal(NOT_FOUND, f"there is no queue and no topic {name!r}")


async def _feed(entities: Entities, address: str, query: QueryParams) -> ET.Element:
    """The part of a list that is asked for. Raises Refusal."""
    try:
        skip, top = max(int(query.get("$skip", 0)), 0), max(int(query.get("$top", MOST)), 0)
    except ValueError:
        raise Refusal(ARGUMENT, "$skip and $top are numbers") from None
    found = await entities.list()
    page = found[skip : skip + top]
    contents = await entities.describe(page, is_one=False)
    entries = [
        atom.entry(one.name, f"{address}/{one.name}", content) for one, content in zip(page, contents, strict=True)
    ]
    following = f"{address}?$skip={skip + top}&$top={top}" if skip + top < len(found) else None
    return atom.feed(type(entities).__name__, address, entries, following)


def application(gateway: Gateway) -> Starlette:
    """The application of ASGI."""

    async def answer(request: Request) -> Response:
        try:
            status, element = await _answer(gateway, request)
        except Exception as error:  # noqa: BLE001 - each request is answered
            log(error, f"{request.method} {request.url.path}")
            status = described(error)[1]
            return Response(ET.tostring(atom.error(status, text_of(error))), status, media_type="application/xml")
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


async def _answer(gateway: Gateway, request: Request) -> tuple[HTTPStatus, ET.Element | None]:
    grant = await gateway.keys.check_token(request.headers.get("authorization", ""))
    granted([grant], entity_of(unquote(request.url.path)) if grant.path else "", gateway.keys)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST:
            raise Refusal(ARGUMENT, f"the body is larger than {LARGEST} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return await operate((await gateway.client_of(grant.key.role)).client, request, bytes(body))


class Server(uvicorn.Server):
    """A server that leaves signals to the gateway."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


@asynccontextmanager
async def listening(gateway: Gateway) -> AsyncIterator[tuple[str, int]]:
    """Serve in the block; yields where it listens. Raises OSError."""
    settings = gateway.settings
    host, port = settings.administration or ("127.0.0.1", 0)
    listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    config = uvicorn.Config(
        application(gateway), log_level="warning", server_header=False, lifespan="off", timeout_graceful_shutdown=2,
        ssl_certfile=settings.certificate, ssl_keyfile=settings.private_key,
    )  # fmt: skip
    server = Server(config)
    task = create_task(server.serve([listener]))
    try:
        yield listener.getsockname()[:2]
    finally:
        server.should_exit = True
        await task
