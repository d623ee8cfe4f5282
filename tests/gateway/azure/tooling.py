"""Stands in for the packages of Microsoft's that the SDK's tests import, and for the network.

``devtools_testutils`` and ``azure.mgmt`` make queues, topics, subscriptions and keys in Azure; here pgqueue makes them.
Names of hosts are resolved to the gateway, so that clients connect to the ports that they always use, by TLS.
"""

from __future__ import annotations

import functools
import inspect
import os
import secrets
import socket
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import ModuleType, SimpleNamespace
from typing import Any

import certifi
import psycopg

from pgqueue import QueueClient
from pgqueue.testing import Database
from tests.gateway.azure.serving import gateway
from tests.gateway.serving import ANYWHERE, key_of

SUFFIX = os.environ.get("SERVICEBUS_ENDPOINT_SUFFIX", ".pgqueue.test")
CERTIFICATE = os.environ.get("PGQUEUE_AZURE_CERTIFICATE", "")
ADMINISTRATION = f"administration{SUFFIX}"
KEY = "RootManageSharedAccessKey"

#: Where the connections to a host go, by its name and its port.
places: dict[tuple[str, int], tuple[str, int]] = {}

resolved = socket.getaddrinfo


def getaddrinfo(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
    """Resolve names of namespaces to the gateway."""
    name = host.decode() if isinstance(host, bytes) else host
    if name is None or not name.endswith(SUFFIX):
        return resolved(host, port, *arguments, **options)
    place = places.get((name, int(port)))
    if place is None:
        raise socket.gaierror(socket.EAI_NONAME, f"{name} is not known")
    return resolved(*place, type=socket.SOCK_STREAM)


# -- the namespace -----------------------------------------------------------------------------------------------------


class Namespace:
    """A database with a gateway: all namespaces of a process are this one."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.client = QueueClient(database.dsn)
        self.roles: list[str] = []
        self.ports: dict[int, tuple[str, int]] = {}

    def key(self, name: str, *grants: str) -> str:
        """Make a key whose role has these rights; returns its connection string, without a host."""
        role = f"azure_{uuid.uuid4().hex[:8]}"
        with psycopg.connect(self.database.dsn, autocommit=True) as connection:
            connection.execute(f"create role {role}".encode())
            self.roles.append(role)
            for grant in grants:
                connection.execute(f"select pgqueue.{grant}".encode(), {"role": role})
            connection.execute("select pgqueue.create_gateway_key(%s, %s)", [name, role])
        return f"SharedAccessKeyName={name};SharedAccessKey={key_of(self.database, name)}"

    def rights(self, rights: list[str], queue: str | None = None) -> list[str]:
        """The grants that rights of Azure stand for."""
        if "Manage" in rights and queue is None:
            return ["grant_admin(%(role)s)"]
        names = [known.name for known in self.client.list_queues()] if queue is None else [queue]
        verbs = [{"Send": "grant_send", "Listen": "grant_receive"}[right] for right in rights if right != "Manage"]
        return [f"{verb}('{name}', %(role)s)" for verb in verbs for name in names]


current: list[Namespace] = []


@contextmanager
def namespace(database: Database) -> Iterator[None]:
    """The namespace of the tests in the block."""
    one = Namespace(database)
    one.key(KEY, "grant_admin(%(role)s)")
    ports = [free_port() for _ in range(3)]
    listen, websocket, administration = (("127.0.0.1", port) for port in ports)
    with one.client, gateway(database.dsn, ports):
        one.ports = {5671: listen, 443: websocket}
        places[ADMINISTRATION, 443] = administration
        current.append(one)
        yield
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        for role in one.roles:
            connection.execute(f"drop owned by {role}; drop role {role}".encode())


def free_port() -> int:
    with socket.create_server(ANYWHERE) as one:
        return int(one.getsockname()[1])


# -- azure.mgmt --------------------------------------------------------------------------------------------------------


def seconds(duration: str) -> timedelta:
    """A duration such as ``PT30S``, or ``PT5M``."""
    amount = int(duration[2:-1])
    return timedelta(minutes=amount) if duration.endswith("M") else timedelta(seconds=amount)


class Fields:
    """Named values, as models of Azure are."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class Management:
    """Makes what tests need. Its clients are one and the same: their methods have other numbers of arguments."""

    def __init__(self) -> None:
        self.one = current[-1]
        self.namespaces = SimpleNamespace(
            begin_create_or_update=self._namespace,
            list_keys=self._keys,
            delete=lambda *_: None,
            create_or_update_authorization_rule=lambda _, __, name, rule: self._rule(name, rule, None),
            delete_authorization_rule=lambda *_: None,
        )
        self.queues = SimpleNamespace(
            create_or_update=self._queue,
            delete=lambda _, __, name: self.one.client.delete_queue(name),
            create_or_update_authorization_rule=lambda _, __, queue, name, rule: self._rule(name, rule, queue),
            list_keys=lambda _, __, queue, name: self._keys("", self._host, name, queue),
            delete_authorization_rule=lambda *_: None,
        )
        self.topics = SimpleNamespace(
            create_or_update=self._topic, delete=lambda _, __, name: self.one.client.delete_topic(name)
        )
        self.subscriptions = SimpleNamespace(
            create_or_update=self._subscription,
            delete=lambda _, __, topic, name: self.one.client.delete_subscription(topic, name),
        )

    _host = "namespace"

    def _namespace(self, _: str, name: str, __: Any) -> Any:
        self._known(name)
        return SimpleNamespace(result=lambda: Fields(name=name))

    def _known(self, name: str) -> None:
        for port, place in self.one.ports.items():
            places[f"{name}{SUFFIX}", port] = place

    def _keys(self, _: str, host: str, name: str, queue: str | None = None) -> Any:
        self._known(host)
        key = key_of(self.one.database, name)
        path = f";EntityPath={queue}" if queue is not None else ""
        string = f"Endpoint=sb://{host}{SUFFIX}/;SharedAccessKeyName={name};SharedAccessKey={key}{path}"
        return Fields(key_name=name, primary_key=key, primary_connection_string=string)

    def _rule(self, name: str, rule: Any, queue: str | None) -> Any:
        self.one.key(name, *self.one.rights(rule.rights, queue))
        return Fields(name=name)

    def _queue(self, _: str, __: str, name: str, wanted: Any) -> Any:
        self.one.client.create_queue(
            name,
            lock_duration=seconds(wanted.lock_duration),
            requires_duplicate_detection=wanted.requires_duplicate_detection,
            dead_lettering_on_message_expiration=wanted.dead_lettering_on_message_expiration,
            requires_session=wanted.requires_session,
        )
        return Fields(name=name)

    def _topic(self, _: str, __: str, name: str, *___: Any) -> Any:
        self.one.client.create_topic(name)
        return Fields(name=name)

    def _subscription(self, _: str, __: str, topic: str, name: str, wanted: Any) -> Any:
        duration = seconds(wanted.lock_duration)
        self.one.client.create_subscription(
            topic, name, requires_session=wanted.requires_session, lock_duration=duration
        )
        return Fields(name=name)


# -- devtools_testutils ------------------------------------------------------------------------------------------------


class Preparer:
    """Makes something for a test, and passes it to it by name. The SDK's own preparers are derived from this one."""

    is_live = True
    test_class_instance: Any = None
    resource: Any = None
    resource_random_name: str | None = None

    def __init__(
        self, name_prefix: str = "", random_name_length: int = 24, *, random_name_enabled: bool = True, **_: Any
    ) -> None:
        self.name_prefix = name_prefix
        self.random_name_length = random_name_length
        self.random_name_enabled = random_name_enabled
        self.moniker = name_prefix

    def set_cache(self, *_: Any) -> None:
        """Each test gets its own."""

    def create_mgmt_client(self, _: Any, **__: Any) -> Management:
        return Management()

    def create_resource(self, name: str, **_: Any) -> dict[str, Any]:
        raise NotImplementedError

    def remove_resource(self, name: str, **_: Any) -> None:
        """There is nothing to remove."""

    @contextmanager
    def resources(self, **given: Any) -> Iterator[dict[str, Any]]:
        """Everything that the test gets, as long as the block lasts."""
        name = self.resource_random_name or f"{self.name_prefix}{secrets.token_hex(6)}"
        made = self.create_resource(name, **given)
        try:
            yield given | made
        finally:
            self.remove_resource(name, **(given | made))

    def __call__(self, test: Callable[..., Any]) -> Callable[..., Any]:
        """The test with what it needs."""
        wanted = inspect.signature(inspect.unwrap(test)).parameters
        takes_all = hasattr(test, "__wrapped__") or any(one.kind is one.VAR_KEYWORD for one in wanted.values())

        def chosen(given: dict[str, Any]) -> dict[str, Any]:
            return {name: value for name, value in given.items() if takes_all or name in wanted}

        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def prepared(test_class: Any, **given: Any) -> None:
                with self.resources(**given) as resources:
                    await test(test_class, **chosen(resources))
        else:

            @functools.wraps(test)
            def prepared(test_class: Any, **given: Any) -> None:
                with self.resources(**given) as resources:
                    test(test_class, **chosen(resources))

        visible = [one for one in wanted.values() if not one.name.startswith("servicebus_")]
        prepared.__signature__ = inspect.Signature(visible)  # type: ignore[attr-defined]
        return prepared


class GroupPreparer(Preparer):
    """Groups of resources have no meaning here."""

    def create_resource(self, name: str, **_: Any) -> dict[str, Any]:
        return {"resource_group": Fields(name=name)}


class EnvironmentPreparer(Preparer):
    """Passes the names and keys that Microsoft's scripts put into the environment."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def create_resource(self, name: str, **_: Any) -> dict[str, Any]:
        key = key_of(current[-1].database, KEY)
        return {
            "servicebus_connection_str": f"Endpoint=sb://{ADMINISTRATION}/;SharedAccessKeyName={KEY};SharedAccessKey={key}",
            "servicebus_fully_qualified_namespace": ADMINISTRATION,
            "servicebus_sas_policy": KEY,
            "servicebus_sas_key": key,
        }


def get_credential(*, is_async: bool = False, **_: Any) -> Any:
    """The key of the namespace, as a credential: there are no identities."""
    if is_async:
        from azure.servicebus.aio._base_handler_async import ServiceBusSharedKeyCredential as AsyncCredential

        return AsyncCredential(KEY, key_of(current[-1].database, KEY))
    from azure.servicebus._base_handler import ServiceBusSharedKeyCredential as Credential

    return Credential(KEY, key_of(current[-1].database, KEY))


def unchanged(given: Any) -> Any:
    return given


def nothing(*_: Any, **__: Any) -> None:
    """Nothing is recorded, and so nothing is removed from records."""


def named(name: str) -> type[Any]:
    """A class that tests import by this name."""
    return type(name, (), {})


MODULES: dict[str, dict[str, Any]] = {
    "devtools_testutils": {
        "AzureMgmtPreparer": Preparer,
        "CachedResourceGroupPreparer": GroupPreparer,
        "RandomNameResourceGroupPreparer": GroupPreparer,
        "PowerShellPreparer": EnvironmentPreparer,
        "AzureMgmtRecordedTestCase": named("AzureMgmtRecordedTestCase"),
        "AzureRecordedTestCase": type("AzureRecordedTestCase", (), {"await_prepared_test": unchanged}),
        "AzureTestError": type("AzureTestError", (Exception,), {}),
        "ReservedResourceNameError": type("ReservedResourceNameError", (Exception,), {}),
        "FakeResource": Fields,
        "get_region_override": unchanged,
        "get_credential": get_credential,
        "recorded_by_proxy": unchanged,
        "add_general_regex_sanitizer": nothing,
        "set_custom_default_matcher": nothing,
    },
    "devtools_testutils.aio": {"recorded_by_proxy_async": unchanged},
    "devtools_testutils.resource_testcase": {"RESOURCE_GROUP_PARAM": "resource_group"},
    "devtools_testutils.sanitizers": {
        "add_remove_header_sanitizer": nothing,
        "add_general_regex_sanitizer": nothing,
        "add_oauth_response_sanitizer": nothing,
    },
    "azure.common": {
        "AzureHttpError": type("AzureHttpError", (Exception,), {}),
        "AzureConflictHttpError": type("AzureConflictHttpError", (Exception,), {}),
    },
    "azure.mgmt": {},
    "azure.mgmt.resource": {"ResourceManagementClient": named("ResourceManagementClient")},
    "azure.mgmt.servicebus": {"ServiceBusManagementClient": Management},
    "azure.mgmt.servicebus.models": {
        "SBQueue": Fields,
        "SBSubscription": Fields,
        "SBAuthorizationRule": Fields,
        "AccessRights": SimpleNamespace(manage="Manage", send="Send", listen="Listen"),
    },
}


def install() -> None:
    """Stand in for the packages and the network, from now on."""
    for name, content in MODULES.items():
        module = sys.modules[name] = ModuleType(name)
        module.__path__ = []
        module.__dict__.update(content)
    connect()


def connect() -> None:
    """Stand in for the network, from now on."""
    socket.getaddrinfo = getaddrinfo
    certifi.where = lambda: CERTIFICATE
