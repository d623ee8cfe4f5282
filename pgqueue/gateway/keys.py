"""Keys of clients, the tokens that they sign, and the grants that these give."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Any, LiteralString
from urllib.parse import unquote

import psycopg

from pgqueue.gateway.conditions import UNAUTHORIZED, Refusal
from pgqueue.gateway.entities import entity_of
from pgqueue.model.schemas import in_schema
from pgqueue.transports import dsn as dsns
from pgqueue.transports.readable import ENCODING
from pgqueue.transports.translation import translate

#: Unknown names do not make the gateway read the keys more often than after so many seconds.
LEAST = 0.5

PREFIX = "SharedAccessSignature "

KEYS = "select name, role, salt from pgqueue.gateway_keys()"
CREATE = "select pgqueue.create_gateway_key(%s, %s)"
DROP = "select pgqueue.drop_gateway_key(%s)"
LIST = "select name, role, created_at from pgqueue.gateway_keys()"


@dataclass(frozen=True)
class Key:
    """A key: its name, the role that its clients are, and what they sign with."""

    name: str
    role: str
    value: str = field(repr=False)


@dataclass(frozen=True)
class ListedKey:
    """A key as it is shown."""

    name: str
    role: str
    created_at: datetime


@dataclass
class Grant:
    """A role for the entities below ``path``, until ``expires`` by the gateway's clock."""

    key: Key
    path: str
    expires: float

    def covers(self, entity: str) -> bool:
        """Whether it is for this entity, and has not expired."""
        is_below = not self.path or (entity + "/").lower().startswith(self.path.lower() + "/")
        return is_below and time.time() < self.expires


def derived(secret: bytes, name: str, salt: bytes) -> str:
    """The key itself, as connection strings hold it."""
    return b64encode(hmac.digest(secret + salt, name.encode(), hashlib.sha256)).decode()


class KeyRing:
    """The keys of a database, as they were read last."""

    def __init__(self, dsn: str, schema: str, secret: bytes) -> None:
        self._dsn, self._schema, self._secret = dsns.for_libpq(dsn), schema, secret
        self._keys: Mapping[str, Key] = {}
        self._read_at = -inf
        self._reading = asyncio.Lock()

    async def read(self) -> None:
        """Read the keys again. Raises AccessDeniedError unless the gateway's role is an administrator of pgqueue."""
        self._read_at = time.monotonic()
        rows = await self.rows(KEYS)
        found = [Key(name, role, derived(self._secret, name, bytes(salt))) for name, role, salt in rows]
        self._keys = {key.name: key for key in found}

    async def rows(self, statement: LiteralString, *arguments: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement, such as those about keys."""
        try:
            async with await psycopg.AsyncConnection.connect(
                self._dsn, application_name="pgqueue gateway", client_encoding=ENCODING
            ) as connection:
                cursor = await connection.execute(in_schema(statement, self._schema), arguments, binary=True)
                return await cursor.fetchall()
        except psycopg.Error as error:
            raise translate(error) from error

    async def create(self, name: str, role: str) -> Key:
        """Make a key. Raises InvalidArgumentError and AccessDeniedError."""
        ((salt,),) = await self.rows(CREATE, name, role)
        return Key(name, role, derived(self._secret, name, bytes(salt)))

    async def drop(self, name: str) -> None:
        """Delete a key. Raises InvalidArgumentError and AccessDeniedError."""
        await self.rows(DROP, name)

    async def list(self) -> list[ListedKey]:
        """The keys, ordered by name. Raises AccessDeniedError."""
        return [ListedKey(*row) for row in await self.rows(LIST)]

    def holds(self, key: Key) -> bool:
        """Whether a key is still valid."""
        return self._keys.get(key.name) == key

    async def key(self, name: str) -> Key:
        """A key by its name; one that is not known yet is looked for. Raises Refusal."""
        if name not in self._keys:
            async with self._reading:
                await asyncio.sleep(self._read_at + LEAST - time.monotonic())
                if name not in self._keys:
                    await self.read()
        if name not in self._keys:
            raise Refusal(UNAUTHORIZED, f"no key is called {name!r}: `pgqueue gateway keys create` makes one")
        return self._keys[name]

    async def check_password(self, name: str, password: str) -> Grant:
        """The grant of a client that gives the key itself, for all entities. Raises Refusal."""
        key = await self.key(name)
        if not hmac.compare_digest(password.encode(), key.value.encode()):
            raise Refusal(UNAUTHORIZED, f"the key {name} has another value")
        return Grant(key, "", float("inf"))

    async def check_token(self, token: str) -> Grant:
        """The grant that a shared access signature gives. Raises Refusal."""
        fields = dict(parse_raw(token.removeprefix(PREFIX)))
        if not token.startswith(PREFIX) or not {"sr", "sig", "se", "skn"} <= fields.keys():
            raise Refusal(UNAUTHORIZED, "the token is no shared access signature: it has sr, sig, se and skn")
        key = await self.key(unquote(fields["skn"]))
        signed = f"{fields['sr']}\n{fields['se']}".encode()
        signature = b64encode(hmac.digest(key.value.encode(), signed, hashlib.sha256))
        if not hmac.compare_digest(signature, unquote(fields["sig"]).encode()):
            raise Refusal(UNAUTHORIZED, f"the token is not signed with the key {key.name}")
        try:
            grant = Grant(key, entity_of(unquote(fields["sr"])), float(fields["se"]))
        except ValueError:
            raise Refusal(UNAUTHORIZED, "the time at which the token expires is no number") from None
        if not time.time() < grant.expires:
            raise Refusal(UNAUTHORIZED, "the token has expired")
        return grant


def parse_raw(text: str) -> Iterable[tuple[str, str]]:
    """The fields of a token, still percent-encoded as they were signed."""
    for part in text.split("&"):
        name, _, value = part.partition("=")
        yield name.strip(), value.strip()


def granted(grants: Iterable[Grant], entity: str, keys: KeyRing) -> Grant:
    """The grant that lets a client use an entity. Raises Refusal."""
    for grant in grants:
        if grant.covers(entity) and keys.holds(grant.key):
            return grant
    raise Refusal(UNAUTHORIZED, f"no token that is valid now lets this client use {entity!r}: put one to $cbs")
