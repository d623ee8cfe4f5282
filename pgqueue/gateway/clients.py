"""The queues, with the rights of a role."""

from __future__ import annotations

import psycopg
from psycopg.conninfo import make_conninfo

from pgqueue.aio import Queue, QueueClient, Topic
from pgqueue.errors import AccessDeniedError, QueueNotFoundError, TopicNotFoundError
from pgqueue.gateway.conditions import NOT_FOUND, UNAUTHORIZED, Refusal
from pgqueue.gateway.receiving import Feed, Settler
from pgqueue.gateway.sending import Outbox
from pgqueue.transports import dsn as dsns
from pgqueue.transports.readable import ENCODING
from pgqueue.transports.translation import translate


class RoleClient:
    """A client of the database whose connections have taken a role on, with what all links of the role share."""

    def __init__(self, dsn: str, role: str, schema: str) -> None:
        self.role = role
        self.conninfo = make_conninfo(
            dsns.as_role(dsn, role), application_name="pgqueue gateway", client_encoding=ENCODING
        )
        self.client = QueueClient(self.conninfo, schema=schema)
        self._is_checked = False
        self._outboxes: dict[str, Outbox] = {}
        self._feeds: dict[tuple[str, bool], Feed] = {}
        self._settlers: dict[str, Settler] = {}

    async def check(self) -> None:
        """Check once that connections take the role on: a pooler between may drop it. Raises Refusal."""
        if self._is_checked:
            return
        try:
            async with await psycopg.AsyncConnection.connect(self.conninfo) as connection:
                cursor = await connection.execute("select current_setting('role')")
                ((role,),) = await cursor.fetchall()
        except psycopg.Error as error:
            raise translate(error) from error
        if role != self.role:
            raise Refusal(UNAUTHORIZED, f"connections do not take on the role {self.role}: is a pooler between?")
        self._is_checked = True

    async def outbox(self, name: str) -> Outbox:
        """Where what is sent to a queue or a topic goes. Raises Refusal if there is none."""
        try:
            entity = await self.entity(name)
        except AccessDeniedError:
            why = f"role {self.role} may not send to {name}: an administrator allows it with pgqueue grant send"
            raise Refusal(UNAUTHORIZED, why) from None
        outbox = self._outboxes.get(name)
        if outbox is None or type(outbox.entity) is not type(entity):
            outbox = self._outboxes[name] = Outbox(entity)
        return outbox

    async def entity(self, name: str) -> Queue | Topic:
        """The queue or the topic of this name. Raises Refusal."""
        try:
            await self.client.get_queue(name)
        except QueueNotFoundError:
            try:
                await self.client.get_topic(name)
            except TopicNotFoundError:
                raise Refusal(
                    NOT_FOUND, f"there is no queue and no topic {name!r}: `pgqueue queue create` makes a queue"
                ) from None
            return self.client.topic(name)
        return self.client.queue(name)

    def feed(self, name: str, *, deletes: bool) -> Feed:
        """Where the messages of a queue come from."""
        if (name, deletes) not in self._feeds:
            self._feeds[name, deletes] = Feed(self.client.queue(name), deletes=deletes)
        return self._feeds[name, deletes]

    def settler(self, name: str) -> Settler:
        """The settler of the messages of a queue."""
        if name not in self._settlers:
            self._settlers[name] = Settler(self.client.queue(name))
        return self._settlers[name]

    async def close(self) -> None:
        """Finish what is in flight, and close the connections."""
        for feed in self._feeds.values():
            await feed.stop()
        for outbox in self._outboxes.values():
            await outbox.calls.finish()
        for settler in self._settlers.values():
            await settler.calls.finish()
        await self.client.close()
