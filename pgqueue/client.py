# Written by `make generate` from pgqueue/aio/client.py: change it there.
"""The synchronous client: queues by name, and the schema they live in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, overload
from uuid import UUID

from pgqueue import embedded, schema, transports
from pgqueue.batch import Batch
from pgqueue.flows import fan_in, sweeping
from pgqueue.flows import queues as flows
from pgqueue.flows import schedules as scheduling
from pgqueue.flows import topics as publishing
from pgqueue.flows.flow import bodies_of
from pgqueue.interceptor import Interceptor, Interceptors
from pgqueue.model.access import Grant
from pgqueue.model.batch import batch_uuid
from pgqueue.model.cipher import Cipher
from pgqueue.model.message import BodyT, Message, SequenceNumber
from pgqueue.model.names import subscription_queue
from pgqueue.model.schedule import CatchUp, Schedule
from pgqueue.model.settings import GroupLimits, QueueProperties, QueueRuntimeProperties, QueueSettings
from pgqueue.model.sweeping import SweepReport
from pgqueue.model.topic import (
    Filter,
    JsonPathFilter,
    RuleProperties,
    SubscriptionProperties,
    TopicProperties,
    TopicSettings,
)
from pgqueue.queue import Queue
from pgqueue.statements import access, queues, schedules, topics
from pgqueue.topic import Topic
from pgqueue.transports import drive

if TYPE_CHECKING:
    from pgqueue.transports.typed import ClientSource, Transaction


class QueueClient:
    """The entry point: creates and manages queues, and opens them.

    ``source`` is a DSN, a ``psycopg_pool.ConnectionPool`` or an ``Engine`` of SQLAlchemy over psycopg: the
    client's own statements run on psycopg, whatever the driver of your transactions. Without it the client takes the
    database that libpq's environment variables name: ``PGSERVICE``, or ``PGHOST``, ``PGDATABASE`` and so on.
    SQLAlchemy's form of a DSN, ``postgresql+psycopg://…``, is understood, too. With a DSN, or without a source, the
    client has its own pool: it opens the pool at the first use, and closes it in :meth:`close` or at the end of a
    ``with`` block. A pool or an engine that you pass stays open. The client is safe to use from several threads.

    A forked child may use the client. With a DSN the child opens its own connections. Over an open pool, or an engine
    that has connections, the child gets :class:`~pgqueue.errors.InvalidStateError`.

    Waiting consumers are woken by NOTIFY, over one connection for all queues. With ``listen=False``, or behind a pooler
    that does not support LISTEN, they poll instead.

    ``timeout``, by default 30 seconds, is how long a call may take to get a connection and the database's answer; what
    it waits for messages is added. Past it the connection is closed, and the call raises
    :class:`~pgqueue.errors.ConnectionLostError`, or :class:`~pgqueue.errors.OperationTimeoutError` if it got no
    connection. None means no timeout. :func:`pgqueue.deadline` sets another for a block. See ``docs/timeouts.md``.

    ``interceptors`` run around each send and each run of a handler, the first one outermost: see
    :class:`~pgqueue.Interceptor`.

    ``schema`` is where pgqueue is installed in the database: instances in several schemas know nothing of each other.
    See ``docs/schemas.md``.

    Raises:
        UnsupportedSourceError: ``source`` is none of these.
        InvalidArgumentError: no database was named, ``timeout`` is not positive, an interceptor has another type, or
            ``schema`` is no valid name.
    """

    def __init__(
        self,
        source: ClientSource | None = None,
        *,
        listen: bool = True,
        timeout: timedelta | None = timedelta(seconds=30),
        interceptors: Sequence[Interceptor | Cipher] = (),
        schema: str = "pgqueue",
    ) -> None:
        self._source = transports.source_of(source, asynchronous=False, listens=listen, timeout=timeout, schema=schema)
        self._source.interceptors = Interceptors(interceptors) if interceptors else None

    @classmethod
    def embedded(cls, directory: Path | str | None = None, *, schema: str = "pgqueue") -> Self:
        """Returns a client of the embedded PostgreSQL, which it starts if necessary, and migrates the schema.

        Needs the extra ``pgqueue-tx[embedded]``. ``directory`` is where the server keeps its data.
        """
        client = cls(embedded.start(directory), schema=schema)
        client.migrate()
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the client's own connections."""
        drive(self._source.close())

    def migrate(self) -> None:
        """Migrates the schema to the version of this library. Safe to call from many processes at once.

        Raises:
            SchemaVersionError: the schema is newer than this library.
        """
        schema.migrate(self._source.conninfo, schema=self._source.schema)

    def create_queue(self, name: str, *, exist_ok: bool = False, **settings: Unpack[QueueSettings]) -> QueueProperties:
        """Creates a queue with the given :class:`~pgqueue.QueueSettings`; the other settings have their defaults.

        Raises:
            QueueAlreadyExistsError: a queue with this name exists; with ``exist_ok`` it is returned unchanged instead.
            InvalidArgumentError: the name or a setting is invalid.
        """
        return drive(flows.create(queues.create_queue(name, settings), name, self._source, exist_ok=exist_ok))

    def get_queue(self, name: str) -> QueueProperties:
        """Returns the settings of a queue. Raises :class:`~pgqueue.errors.QueueNotFoundError`."""
        return drive(self._source.execute(queues.get_queue(name)))

    def get_queue_runtime_properties(self, name: str) -> QueueRuntimeProperties:
        """Returns how many messages a queue holds now. Raises :class:`~pgqueue.errors.QueueNotFoundError`."""
        return drive(self._source.execute(queues.get_queue_runtime_properties(name)))

    def update_queue(self, name: str, **settings: Unpack[QueueSettings]) -> QueueProperties:
        """Changes the given settings; None removes an optional setting.

        Locks that are held keep their expiry, and messages that were already sent keep their times.

        Raises:
            QueueNotFoundError: no queue has this name.
            InvalidArgumentError: a setting has an invalid value.
        """
        return drive(flows.alter(queues.alter_queue(name, settings), name, self._source))

    def pause_queue(self, name: str) -> QueueProperties:
        """Pauses a queue: it hands out nothing until :meth:`resume_queue`.

        Receives return nothing, as from an empty queue. Sending and settling go on. A queue that is paused already
        stays as it is.

        Raises:
            QueueNotFoundError: no queue has this name.
        """
        return drive(flows.alter(queues.pause_queue(name), name, self._source))

    def resume_queue(self, name: str) -> QueueProperties:
        """Resumes a queue that was paused, and wakes its waiting consumers.

        Raises:
            QueueNotFoundError: no queue has this name.
        """
        return drive(flows.alter(queues.resume_queue(name), name, self._source))

    def set_group_limits(self, queue: str, group_id: str, **limits: Unpack[GroupLimits]) -> None:
        """Sets the :class:`~pgqueue.GroupLimits` of one group of a fair queue, in place of those of the queue.

        A limit that is left out is that of the queue; None is no limit. The limits hold until they are set again.

        Raises:
            QueueNotFoundError: no queue has this name.
            InvalidArgumentError: the queue is not fair, or an argument is invalid.
        """
        drive(self._source.execute(queues.set_group_limits(queue, group_id, limits)))

    def delete_queue(self, name: str) -> None:
        """Deletes a queue with all its messages and dead letters.

        Raises:
            QueueNotFoundError: no queue has this name.
            InvalidArgumentError: another queue forwards to it.
        """
        drive(flows.drop(name, self._source))

    def purge_queue(self, name: str) -> int:
        """Deletes all messages of a queue, including locked, deferred and scheduled ones; returns how many.

        Dead letters stay; to delete them, pass ``"<queue>/$deadletterqueue"``. Messages that an open transaction holds
        are skipped.
        """
        return drive(flows.purge(name, self._source))

    def list_queues(self) -> list[QueueProperties]:
        """Returns the settings of all queues, ordered by name."""
        return drive(self._source.execute(queues.list_queues()))

    def list_queues_runtime_properties(self, *, exact: bool = False) -> list[QueueRuntimeProperties]:
        """Returns how many messages each queue holds now, ordered by name.

        In a large database the numbers of some queues are estimates: their ``is_exact`` is false. With ``exact`` all
        messages are counted, in one pass over each table.
        """
        return drive(self._source.execute(queues.list_queues_runtime_properties(exact=exact)))

    def create_schedule(
        self,
        name: str,
        *,
        queue: str,
        message: Message[Any],
        cron: str | None = None,
        every: timedelta | None = None,
        timezone: str = "UTC",
        catch_up: CatchUp | str = CatchUp.NONE,
        jitter: timedelta | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        exist_ok: bool = False,
    ) -> Schedule:
        """Creates a schedule: a message that workers and sweeps send to a queue again and again.

        It is due at the times of a ``cron`` expression, such as ``"30 2 * * *"``, in a ``timezone``, or ``every`` so
        often, not before ``start`` and not after ``end``. Each message can be received up to ``jitter`` later, at
        random. ``catch_up`` is a :class:`~pgqueue.CatchUp`: what happens to due times that were missed while no worker
        ran. ``docs/schedules.md`` has the details, and the rules of daylight saving.

        Raises:
            ScheduleAlreadyExistsError: the name is taken; with ``exist_ok`` that schedule is returned unchanged
                instead.
            QueueNotFoundError: the queue does not exist.
            InvalidArgumentError: an argument is invalid, or the schedule would never be due.
            InvalidArgumentError: it is no message, or a field has the wrong type or is out of its bounds.
            MessageNotSerializableError: the message cannot be stored.
        """
        interceptors = self._source.interceptors
        statement = schedules.create_schedule(
            name,
            queue=queue,
            message=message if interceptors is None else interceptors.changed(message),
            body_type=bodies_of(self._source),
            cron=cron,
            every=every,
            timezone=timezone,
            catch_up=catch_up,
            jitter=jitter,
            start=start,
            end=end,
        )
        return self._readable(drive(scheduling.create(statement, name, self._source, exist_ok=exist_ok)))

    def get_schedule(self, name: str) -> Schedule:
        """Returns a schedule. Raises :class:`~pgqueue.errors.ScheduleNotFoundError`."""
        return self._readable(drive(self._source.execute(schedules.get_schedule(name))))

    def list_schedules(self) -> list[Schedule]:
        """Returns all schedules, ordered by name."""
        return [self._readable(each) for each in drive(self._source.execute(schedules.list_schedules()))]

    def pause_schedule(self, name: str) -> Schedule:
        """Pauses a schedule: it sends nothing until :meth:`resume_schedule`.

        Raises:
            ScheduleNotFoundError: no schedule has this name.
        """
        return self._readable(drive(scheduling.pause(name, self._source)))

    def resume_schedule(self, name: str) -> Schedule:
        """Resumes a schedule. Due times that passed while it was paused are skipped, whatever its ``catch_up``.

        Raises:
            ScheduleNotFoundError: no schedule has this name.
        """
        return self._readable(drive(scheduling.resume(name, self._source)))

    def run_schedule(self, name: str) -> SequenceNumber:
        """Sends the message of a schedule now, also while it is paused. Its due times stay as they are.

        Raises:
            ScheduleNotFoundError: no schedule has this name.
            QueueDisabledError: the status of the queue forbids sending; or another error of a send.
        """
        return drive(self._source.execute(schedules.run_schedule(name)))

    def delete_schedule(self, name: str) -> None:
        """Deletes a schedule. Messages that it has sent stay.

        Raises:
            ScheduleNotFoundError: no schedule has this name.
        """
        drive(self._source.execute(schedules.drop_schedule(name)))

    def create_topic(self, name: str, *, exist_ok: bool = False, **settings: Unpack[TopicSettings]) -> TopicProperties:
        """Creates a topic with the given :class:`~pgqueue.TopicSettings`; the other settings have their defaults.

        Messages sent to it are stored in each of its subscriptions whose filter matches.

        Raises:
            TopicAlreadyExistsError: a topic with this name exists; with ``exist_ok`` it is returned unchanged instead.
            QueueAlreadyExistsError: a queue has this name.
            InvalidArgumentError: the name or a setting is invalid.
        """
        return drive(publishing.create_topic(name, settings, self._source, exist_ok=exist_ok))

    def get_topic(self, name: str) -> TopicProperties:
        """Returns a topic. Raises :class:`~pgqueue.errors.TopicNotFoundError`."""
        return drive(self._source.execute(topics.get_topic(name)))

    def update_topic(self, name: str, **settings: Unpack[TopicSettings]) -> TopicProperties:
        """Changes the given settings; None removes an optional setting. Messages that were sent keep their times.

        Raises:
            TopicNotFoundError: no topic has this name.
            InvalidArgumentError: a setting has an invalid value.
        """
        return drive(publishing.alter_topic(name, settings, self._source))

    def delete_topic(self, name: str) -> None:
        """Deletes a topic and its subscriptions, with all their messages and dead letters.

        Raises:
            TopicNotFoundError: no topic has this name.
            InvalidArgumentError: another queue forwards to a subscription.
        """
        drive(publishing.drop_topic(name, self._source))

    def list_topics(self) -> list[TopicProperties]:
        """Returns all topics, ordered by name."""
        return drive(self._source.execute(topics.list_topics()))

    def create_subscription(
        self,
        topic: str,
        name: str,
        *,
        filter: Filter | None = None,
        set_properties: Mapping[str, Any] | None = None,
        exist_ok: bool = False,
        **settings: Unpack[QueueSettings],
    ) -> SubscriptionProperties:
        """Creates a subscription of a topic: a queue, in which the messages are stored that its ``filter`` matches.

        The filter is a :class:`~pgqueue.CorrelationFilter`, a :class:`~pgqueue.JsonPathFilter` or a
        :class:`~pgqueue.SqlFilter`; without one, every message matches. ``set_properties`` are merged into the
        application properties of each message that is stored in this subscription. The settings are those of a queue,
        named ``<topic>/Subscriptions/<name>``.

        Raises:
            TopicNotFoundError: no topic has this name.
            QueueAlreadyExistsError: the subscription exists; with ``exist_ok`` it is returned unchanged instead.
            InvalidArgumentError: the name, the filter or a setting is invalid.
        """
        statement = topics.create_subscription(topic, name, self._checked(filter), set_properties, settings)
        flow = publishing.create_subscription(statement, topic, name, self._source, exist_ok=exist_ok)
        return drive(flow)

    def update_subscription(
        self,
        topic: str,
        name: str,
        *,
        filter: Filter | None = topics.UNCHANGED,
        set_properties: Mapping[str, Any] | None = topics.UNCHANGED,
        **settings: Unpack[QueueSettings],
    ) -> SubscriptionProperties:
        """Changes a subscription in one transaction, as far as it is given; None removes an optional setting.

        A ``filter`` replaces the former one; with None every message matches. ``set_properties`` replace what was set.
        Messages that are in the subscription stay there. Senders do not wait, and each message that they send meets
        either all of the old subscription or all of the new one.

        Raises:
            TopicNotFoundError: no topic has this name.
            QueueNotFoundError: the topic has no such subscription.
            RuleNotFoundError: the rule ``$Default``, which has the filter and the properties, was deleted.
            InvalidArgumentError: the filter or a setting is invalid.
        """
        statement = topics.alter_subscription(topic, name, self._checked(filter), set_properties, settings)
        return drive(publishing.alter_subscription(statement, topic, name, self._source))

    def delete_subscription(self, topic: str, name: str) -> None:
        """Deletes a subscription with all its messages and dead letters. Senders do not wait.

        Raises:
            TopicNotFoundError: no topic has this name.
            QueueNotFoundError: the topic has no such subscription.
            InvalidArgumentError: another queue forwards to it.
        """
        drive(publishing.drop_subscription(topic, name, self._source))

    def list_subscriptions(self, topic: str) -> list[SubscriptionProperties]:
        """Returns the subscriptions of a topic, ordered by name. Raises :class:`~pgqueue.errors.TopicNotFoundError`."""
        return drive(self._source.execute(topics.list_subscriptions(topic)))

    def get_subscription(self, topic: str, name: str) -> SubscriptionProperties:
        """Returns a subscription of a topic.

        Raises:
            TopicNotFoundError: no topic has this name.
            QueueNotFoundError: the topic has no such subscription.
        """
        return drive(publishing.get_subscription(topic, name, self._source))

    def create_rule(
        self,
        topic: str,
        subscription: str,
        name: str,
        *,
        filter: Filter | None = None,
        set_properties: Mapping[str, Any] | None = None,
        exist_ok: bool = False,
    ) -> None:
        """Creates a rule of a subscription, which then also stores the messages that the rule's ``filter`` matches.

        A subscription is created with the rule ``$Default``, whose filter and ``set_properties`` are its own. A message
        that several rules match is stored once, with the ``set_properties`` of all of them; where two set the same
        property, that of the rule whose name comes last.

        Raises:
            TopicNotFoundError: no topic has this name.
            QueueNotFoundError: the topic has no such subscription.
            RuleAlreadyExistsError: the rule exists; with ``exist_ok`` it is left unchanged instead.
            InvalidArgumentError: the name or the filter is invalid.
        """
        statement = topics.create_rule(topic, subscription, name, self._checked(filter), set_properties)
        drive(publishing.create_rule(statement, self._source, exist_ok=exist_ok))

    def update_rule(
        self,
        topic: str,
        subscription: str,
        name: str,
        *,
        filter: Filter | None = topics.UNCHANGED,
        set_properties: Mapping[str, Any] | None = topics.UNCHANGED,
    ) -> None:
        """Changes the given parts of a rule, in one transaction.

        A ``filter`` replaces the former one; with None every message matches. ``set_properties`` replace what was set.

        Raises:
            TopicNotFoundError: no topic has this name.
            QueueNotFoundError: the topic has no such subscription.
            RuleNotFoundError: the subscription has no such rule.
            InvalidArgumentError: the filter is invalid.
        """
        statement = topics.alter_rule(topic, subscription, name, self._checked(filter), set_properties)
        drive(self._source.execute(statement))

    def delete_rule(self, topic: str, subscription: str, name: str) -> None:
        """Deletes a rule of a subscription. Its messages stay. A subscription without rules gets no messages.

        Raises:
            TopicNotFoundError: no topic has this name.
            QueueNotFoundError: the topic has no such subscription.
            RuleNotFoundError: the subscription has no such rule.
        """
        drive(self._source.execute(topics.drop_rule(topic, subscription, name)))

    def list_rules(self, topic: str, subscription: str) -> list[RuleProperties]:
        """Returns the rules of a subscription, ordered by name.

        Raises:
            QueueNotFoundError: the topic has no such subscription.
        """
        return drive(self._source.execute(topics.list_rules(topic, subscription)))

    def sweep(self, *, dry_run: bool = False, thorough: bool = False) -> SweepReport:
        """Sweeps all queues in short transactions until nothing is left to do, and reports what it did.

        Correctness does not depend on it. It is safe to call at any time; while another sweep runs, it does nothing.
        With ``dry_run`` it only counts what it would do. A queue in which a sweep reads much is looked over as a whole
        once an hour, and when the sweep is ``thorough``; see ``docs/sweeper.md``.
        """
        return drive(sweeping.sweep(self._source, dry_run=dry_run, thorough=thorough))

    def grant_send(self, queue: str, role: str) -> None:
        """Lets a database role send to a queue, schedule messages and cancel them, or send to a topic.

        It cannot see what is there. ``"public"`` is every role. See ``docs/security.md``.

        Raises:
            AccessDeniedError: the client's own role is no administrator.
            QueueNotFoundError: no queue has this name.
            InvalidArgumentError: no role has this name.
        """
        drive(self._source.execute(access.of_queue("grant_send", queue, role)))

    def grant_receive(self, queue: str, role: str) -> None:
        """Lets a database role receive, settle, peek and resubmit messages of a queue. Raises as :meth:`grant_send`."""
        drive(self._source.execute(access.of_queue("grant_receive", queue, role)))

    def grant_monitor(self, role: str) -> None:
        """Lets a database role see counts and ages of all queues, but no messages. Raises as :meth:`grant_send`."""
        drive(self._source.execute(access.of_all_queues("grant_monitor", role)))

    def grant_admin(self, role: str) -> None:
        """Lets a database role do everything with all queues. Raises as :meth:`grant_send`."""
        drive(self._source.execute(access.of_all_queues("grant_admin", role)))

    def revoke_send(self, queue: str, role: str) -> None:
        """Takes back what :meth:`grant_send` gave. A role that does not have it is no error."""
        drive(self._source.execute(access.of_queue("revoke_send", queue, role)))

    def revoke_receive(self, queue: str, role: str) -> None:
        """Takes back what :meth:`grant_receive` gave. A role that does not have it is no error."""
        drive(self._source.execute(access.of_queue("revoke_receive", queue, role)))

    def revoke_monitor(self, role: str) -> None:
        """Takes back what :meth:`grant_monitor` gave. A role that does not have it is no error."""
        drive(self._source.execute(access.of_all_queues("revoke_monitor", role)))

    def revoke_admin(self, role: str) -> None:
        """Takes back what :meth:`grant_admin` gave. A role that does not have it is no error."""
        drive(self._source.execute(access.of_all_queues("revoke_admin", role)))

    def list_grants(self) -> list[Grant]:
        """Returns who may do what, ordered by role. Superusers may do everything, and are not listed."""
        return drive(self._source.execute(access.grants()))

    @overload
    def queue(self, name: str) -> Queue: ...

    @overload
    def queue(self, name: str, *, body_type: type[BodyT]) -> Queue[BodyT]: ...

    @overload
    def queue(self, name: str, *, body_type: Any) -> Queue: ...

    def queue(self, name: str, *, body_type: Any = None) -> Queue[Any]:
        """Returns a queue to send to and receive from, without a round trip to the database.

        With ``body_type``, a dataclass, a model of pydantic or what contains them, its bodies are of that type: see
        ``docs/typed-bodies.md``.

        Raises:
            InvalidArgumentError: JSON is not made into values of ``body_type``.
        """
        return Queue(name, self._source, bodies_of(self._source, body_type))

    @overload
    def topic(self, name: str) -> Topic: ...

    @overload
    def topic(self, name: str, *, body_type: type[BodyT]) -> Topic[BodyT]: ...

    @overload
    def topic(self, name: str, *, body_type: Any) -> Topic: ...

    def topic(self, name: str, *, body_type: Any = None) -> Topic[Any]:
        """Returns a topic to send to, without a round trip to the database; ``body_type`` is as in :meth:`queue`."""
        return Topic(name, self._source, bodies_of(self._source, body_type))

    @overload
    def subscription(self, topic: str, name: str) -> Queue: ...

    @overload
    def subscription(self, topic: str, name: str, *, body_type: type[BodyT]) -> Queue[BodyT]: ...

    @overload
    def subscription(self, topic: str, name: str, *, body_type: Any) -> Queue: ...

    def subscription(self, topic: str, name: str, *, body_type: Any = None) -> Queue[Any]:
        """Returns the queue that is a subscription, to receive from; ``body_type`` is as in :meth:`queue`."""
        return Queue(subscription_queue(topic, name), self._source, bodies_of(self._source, body_type))

    def create_batch(
        self,
        *,
        then: Message[Any],
        to: str,
        on_failure: Message[Any] | Literal["continue"] | None = None,
        transaction: Transaction | None = None,
    ) -> Batch:
        """Creates a batch: when it is closed and its last member is settled, ``then`` is sent to the queue ``to``.

        The transaction that settles the last member sends the message, once. It is stored now, as a scheduled message;
        its time to live begins when it is sent. If ``on_failure`` is a message, that is sent instead when a member was
        dead-lettered; otherwise dead letters count as done. See ``docs/batches.md``.

        Raises:
            QueueNotFoundError: the queue ``to`` does not exist.
            InvalidArgumentError: it is no message, or a field has the wrong type or is out of its bounds.
            MessageNotSerializableError: a field cannot be stored; the error names it.
            QueueFullError: the queue has reached its ``max_queue_length``.
            QueueDisabledError: the status of the queue forbids sending.
            DuplicateMessageError: another message has its unique key.
            MessageNotFoundError: a message was sent before under its message id.
        """
        where = transports.where(transaction, self._source, asynchronous=False)
        given: list[Message[Any]] = [then] if on_failure is None or on_failure == "continue" else [then, on_failure]
        if (interceptors := self._source.interceptors) is not None:
            given = [interceptors.changed(message) for message in given]
        new_id = drive(fan_in.create(to, given, bodies_of(self._source), where))
        return Batch(new_id, self._source)

    def batch(self, batch_id: UUID | str) -> Batch:
        """Returns a batch by its id, without a round trip to the database."""
        return Batch(batch_uuid(batch_id), self._source)

    def _readable(self, schedule: Schedule) -> Schedule:
        body_type = bodies_of(self._source)
        return schedule if body_type is None else replace(schedule, _body_type=body_type)

    def _checked(self, filter: Filter | None) -> Filter | None:
        if bodies_of(self._source) is not None and isinstance(filter, JsonPathFilter):
            filter.check_encrypted()
        return filter
