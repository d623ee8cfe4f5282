"""Queues, topics, subscriptions and rules over HTTP, as ``ServiceBusAdministrationClient`` manages them."""

from __future__ import annotations

import re
import socket
from asyncio import create_task
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from datetime import UTC, datetime
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

from pgqueue import CorrelationFilter, RuleProperties
from pgqueue.aio import QueueClient
from pgqueue.errors import QueueNotFoundError, RuleNotFoundError, TopicNotFoundError
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

    def verb(self, verb: str, *names: str, **arguments: Any) -> Any:
        """Call a method of the client for entities of this kind."""
        return getattr(self.client, f"{verb}_{self.noun}")(*self.within, *names, **arguments)

    async def all(self) -> list[Any]:
        found: list[Any] = await getattr(self.client, f"list_{self.noun}s")(*self.within)
        return found

    async def get(self, name: str) -> Any:
        return await self.verb("get", name)

    async def create(self, name: str, given: ET.Element) -> None:
        await self.verb("create", name, **atom.settings_of(given))

    async def update(self, name: str, given: ET.Element) -> None:
        await self.verb("update", name, **atom.settings_of(given, self.settings(await self.get(name))))

    def settings(self, found: Any) -> Any:
        """Where the settings are."""
        return found

    async def describe(self, found: Sequence[Any], *, is_one: bool) -> list[ET.Element]:
        """The descriptions of what was found, and what is counted."""
        queues = [self.settings(one) for one in found]
        if is_one:
            counts = [await self.client.get_queue_runtime_properties(queues[0].name)]
        else:
            counts = await self.client.list_queues_runtime_properties()
        known = {one.name: one for one in counts}
        return [atom.description(self.kind, queue, known.get(queue.name), self.host) for queue in queues]


class Queues(Entities):
    """The queues, without those of subscriptions."""

    noun, kind = "queue", atom.QUEUE

    async def all(self) -> list[Any]:
        return [one for one in await super().all() if "/Subscriptions/" not in one.name]


class Topics(Entities):
    """The topics. Rules are counted only for one: there is a statement for each subscription."""

    noun, kind = "topic", atom.TOPIC

    async def describe(self, found: Sequence[Any], *, is_one: bool) -> list[ET.Element]:
        described = [atom.description(self.kind, one, None, self.host) for one in found]
        for one, element in zip(found, described, strict=True):
            atom.filled(element, SubscriptionCount=one.subscriptions)
            if is_one:
                rules: list[RuleProperties] = []
                for subscription in await self.client.list_subscriptions(one.name):
                    with suppress(QueueNotFoundError):  # it has been deleted meanwhile
                        rules += await self.client.list_rules(one.name, subscription.name)
                correlation = sum(isinstance(rule.filter, CorrelationFilter) for rule in rules)
                atom.filled(element, SqlFilterCount=len(rules) - correlation, CorrelationFilterCount=correlation)
        return described


class Subscriptions(Entities):
    """The subscriptions of a topic."""

    noun, kind = "subscription", atom.SUBSCRIPTION

    def settings(self, found: Any) -> Any:
        return found.queue

    async def create(self, name: str, given: ET.Element) -> None:
        first = given.find("DefaultRuleDescription")
        rule, what = ("$Default", {}) if first is None else atom.rule_of(first)
        await self.verb("create", name, **what, **atom.settings_of(given))
        if rule != "$Default":
            rules = Rules(self.client, self.host, *self.within, name)
            await rules.verb("create", rule, **what)
            await rules.verb("delete", "$Default")


class Rules(Entities):
    """The rules of a subscription."""

    noun, kind = "rule", atom.RULE

    async def get(self, name: str) -> Any:
        for found in await self.all():
            if found.name == name:
                return found
        raise RuleNotFoundError(f"subscription {'/'.join(self.within)} has no rule {name!r}")

    async def create(self, name: str, given: ET.Element) -> None:
        await self.verb("create", name, **atom.rule_of(given)[1])

    async def update(self, name: str, given: ET.Element) -> None:
        await self.verb("update", name, **atom.rule_of(given)[1])

    async def describe(self, found: Sequence[Any], *, is_one: bool) -> list[ET.Element]:
        return [atom.rule_description(one) for one in found]


#: The entities that a path names: the one in the last group, or all.
PATHS: dict[str, tuple[type[Entities], ...]] = {
    r"(?i)\$resources/queues()": (Queues,),
    r"(?i)\$resources/topics()": (Topics,),
    r"(?i)(.+)/subscriptions/([^/]+)/rules(?:/([^/]+))?": (Rules,),
    r"(?i)(.+)/subscriptions(?:/([^/]+))?": (Subscriptions,),
    r"(.+)": (Queues, Topics),
}


async def operate(gateway: Gateway, request: Request) -> tuple[HTTPStatus, ET.Element | None]:
    """Do what a request asks for. Raises Refusal."""
    path, method, address = unquote(request.url.path).strip("/"), request.method, str(request.url.replace(query=""))
    grant = await gateway.keys.check_token(request.headers.get("authorization", ""))
    granted([grant], entity_of(path) if grant.path else "", gateway.keys)
    if path.lower() == "$namespaceinfo" and method == "GET":
        return HTTPStatus.OK, atom.document("entry", "pgqueue", address, [_namespace()])
    client = (await gateway.client_of(grant.key.role)).client
    found = ((named.groups(), kinds) for pattern, kinds in PATHS.items() if (named := re.fullmatch(pattern, path)))
    (*within, name), kinds = next(found, (("",), ()))
    choices = [kind(client, request.url.netloc, *within) for kind in kinds]
    if not choices or (method != "GET" and not name):
        raise Refusal(NOT_ALLOWED, f"there is no {method} of /{path}", HTTPStatus.METHOD_NOT_ALLOWED)
    if not name:
        return HTTPStatus.OK, await _feed(choices[0], address, request.query_params)
    status = HTTPStatus.OK
    if method == "PUT":
        given = atom.content_of(await _body(request))
        choices = [one for one in choices if one.kind == given.tag]
        if not choices:
            raise Refusal(ARGUMENT, f"{path} takes no {given.tag}")
        if request.headers.get("if-match") == "*":
            await choices[0].update(name, given)
        else:
            await choices[0].create(name, given)
            status = HTTPStatus.CREATED
    entities, one = await _find(choices, name)
    if method == "DELETE":
        await entities.verb("delete", name)
        return HTTPStatus.OK, None
    return status, atom.document("entry", name, address, await entities.describe([one], is_one=True))


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST:
            raise Refusal(ARGUMENT, f"the body is larger than {LARGEST} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return bytes(body)


def _namespace() -> ET.Element:
    begin = atom.instant(datetime(2020, 1, 1, tzinfo=UTC))
    return atom.filled(atom.element("NamespaceInfo"), CreatedTime=begin, ModifiedTime=begin, MessagingSKU="Premium",
                       MessagingUnits=1, Name="pgqueue", NamespaceType="Messaging")  # fmt: skip


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
        skip, top = max(int(query.get("$skip", 0)), 0), max(int(query.get("$top", MOST)), 1)
    except ValueError:
        raise Refusal(ARGUMENT, "$skip and $top are numbers") from None
    found = await entities.all()
    page = found[skip : skip + top]
    entries = [
        atom.document("entry", one.name, f"{address}/{one.name}", [content])
        for one, content in zip(page, await entities.describe(page, is_one=False), strict=True)
    ]
    more = f"{address}?$skip={skip + top}&$top={top}" if skip + top < len(found) else ""
    return atom.document("feed", type(entities).__name__, address, entries, more)


def application(gateway: Gateway) -> Starlette:
    """The application of ASGI."""

    async def answer(request: Request) -> Response:
        try:
            status, element = await operate(gateway, request)
        except Exception as error:  # noqa: BLE001 - each request is answered
            log(error, f"{request.method} {request.url.path}")
            status = described(error)[1]
            element = atom.filled(ET.Element("Error"), Code=int(status), Detail=text_of(error))
            return Response(ET.tostring(element), status, media_type="application/xml")
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


class Server(uvicorn.Server):
    """A server that leaves signals to the gateway."""

    capture_signals = nullcontext  # type: ignore[assignment]


@asynccontextmanager
async def listening(gateway: Gateway) -> AsyncIterator[tuple[str, int]]:
    """Serve in the block; yields where it listens. Raises OSError."""
    settings = gateway.settings
    host, port = settings.administration or ("127.0.0.1", 0)
    listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    config = uvicorn.Config(
        application(gateway), log_config=None, log_level="warning", server_header=False, lifespan="off",
        timeout_graceful_shutdown=2, ssl_certfile=settings.certificate, ssl_keyfile=settings.private_key,
    )  # fmt: skip
    server = Server(config)
    task = create_task(server.serve([listener]))
    try:
        yield listener.getsockname()[:2]
    finally:
        server.should_exit = True
        await task
