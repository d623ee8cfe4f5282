"""Two queues with a message of each kind, on which every example can be run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import psycopg
from psycopg.errors import Diagnostic

from pgqueue.testing import Database
from tests.sql.example import Example

NOTIFICATION = "application/vnd.pgqueue.notification+json"


@dataclass
class House:
    """Two queues, with a message of each kind in them, and a role that may do something with one of them."""

    connection: psycopg.Connection[Any]
    role: str
    arguments: dict[str, dict[str, Any]] = field(default_factory=dict)
    become: str = "role"
    """``role`` or ``session authorization``, which is as if it had logged in."""

    def fill(self, queue: str) -> None:
        consumer = f"consumer of {queue}"
        self.ask("select pgqueue.create_queue(%s)", queue)
        numbers = [self.ask("select pgqueue.send(%s, '{}')", queue)[0] for _ in range(4)]
        scheduled, *_ = self.ask("select pgqueue.schedule(%s, '1', '2099-01-01')", queue)
        held, waits = (self.ask("select pgqueue.schedule(%s, '1', pgqueue.batch_end())", queue)[0] for _ in range(2))
        batch, *_ = self.ask("select pgqueue.create_batch(%s, %s)", queue, waits)
        staged, *_ = self.ask("select pgqueue.stage(%s, 'night', %s, '{body}')", queue, queue)
        _, epoch = self.ask("select * from pgqueue.attach_consumer(%s, %s)", consumer, queue)
        claim, *_ = self.ask("select pgqueue.claim_batch(%s, 0, 1, epoch => %s)", consumer, epoch)
        locks = [self.ask("select lock_token from pgqueue.receive(%s)", queue)[0] for _ in range(2)]
        self.ask("select pgqueue.defer(%s, %s, %s)", queue, numbers[1], locks[0])
        self.ask("select pgqueue.send(%s, '{}', content_type => %s)", queue, NOTIFICATION)
        (planned,) = self.ask(
            "select pgqueue.create_schedule(%s, %s, '0 0 * * *', body => '1')", f"nightly-{queue}", queue
        )
        self.settle(queue, "dead_letter(%s, %s, %s, 'reason', error => '{\"type\": \"E\"}')")
        self.connection.execute(
            """insert into pgqueue.session (queue_id, session_id, horizon_taken_at)
               select id, 'a', now() from pgqueue.queue where name = %s""",
            [queue],
        )
        self.connection.execute(
            "insert into pgqueue.group_limit select id, 'a', 1 from pgqueue.queue where name = %s", [queue]
        )
        self.connection.execute("delete from pgqueue.sample; select pgqueue.take_sample()")
        self.ask("select pgqueue.record_action('send', %s)", queue)
        self.ask("select pgqueue.heartbeat(gen_random_uuid(), 'host', 1, '1.0', array[%s], 8)", queue)
        published, *_ = self.ask("select pgqueue.stage(%s, 'day', %s, '{body}')", queue, queue)
        self.ask("select pgqueue.publish(%s, array[%s], 0, 'job day', 0)", queue, published)
        self.ask("select pgqueue.send(%s, '{}', priority => -1, unique_key => 'k')", queue)
        self.ask("select pgqueue.create_topic(%s)", f"topic-{queue}")
        self.ask("select pgqueue.create_subscription(%s, 's')", f"topic-{queue}")
        later = "scheduled_enqueue_times => array[pgqueue.clock() + interval '1 day']"
        self.ask(f"select * from pgqueue.send_to_topic(%s, array['1']::jsonb[], {later})", f"topic-{queue}")
        self.ask("select * from pgqueue.receive(%s, lock_duration => '1 microsecond')", queue)
        self.ask("select pgqueue.create_queue(%s)", f"open-{queue}")
        self.ask("select pgqueue.grant_send(%s, 'public')", f"open-{queue}")
        self.ask("select pgqueue.create_gateway_key(%s, %s)", f"key-{queue}", self.role)
        self.arguments[queue] = {
            "queue": queue, "number": numbers[2], "token": locks[1], "deferred": numbers[1], "scheduled": scheduled,
            "staged": staged, "consumer": consumer, "claim": claim, "epoch": epoch, "role": self.role,
            "held": held, "batch": batch,
            "new": f"new-{queue}",
            "open": f"open-{queue}",
            "key": f"key-{queue}",
            "new_key": f"new-key-{queue}",
            "topic": f"topic-{queue}",
            "new_topic": f"new-topic-{queue}",
            "schedule": f"nightly-{queue}",
            "nightly": f"nightly-{queue}",
            "planned": planned,
            "worker": uuid4(),
        }  # fmt: skip

    def ask(self, statement: str, *parameters: Any) -> tuple[Any, ...]:
        (row,) = self.connection.execute(statement.encode(), parameters).fetchall()
        return tuple(row)

    def settle(self, queue: str, how: str) -> None:
        """Settles a message that comes before all others."""
        self.ask("select pgqueue.send(%s, '{}', priority => -2)", queue)
        number, token = self.ask("select sequence_number, lock_token from pgqueue.receive(%s)", queue)
        self.ask(f"select pgqueue.{how}", queue, number, token)

    def all(self, statement: str) -> list[Any]:
        return [value for (value,) in self.connection.execute(statement.encode()).fetchall()]

    def make_history(self) -> None:
        """Completes a message of each queue that is kept in its history, with its outcome."""
        for queue in ("mine", "theirs"):
            self.ask("select pgqueue.alter_queue(%s, retain_history => '1 day', result_retention => '1 day')", queue)
            self.settle(queue, "complete(%s, %s, %s)")

    def refusal(self, example: Example, queue: str) -> Diagnostic | None:
        """The refusal of the call when the role makes it, None where it may. Nothing of it lasts."""
        with suppress(psycopg.errors.InvalidTransactionTermination), self.as_the_role():
            try:
                self.connection.execute(example.statement.encode(), self.arguments[queue])
            except psycopg.errors.InsufficientPrivilege as error:
                return error.diag
            except psycopg.Error as error:
                if error.sqlstate != "PQ007":  # these queues require no sessions, which is found out after the rights
                    raise
        return None

    def called(self, example: Example, queue: str) -> str:
        """How a refusal names the queue, where the arguments name one."""
        arguments = example.statement
        if "%(new)s" in arguments:
            return f' for queue "new-{queue}"'
        for argument in ("topic", "new_topic"):
            if f"%({argument})s" in arguments:
                return f' for topic "{self.arguments[queue][argument]}"'
        names = ("%(queue)s", "%(consumer)s", "%(nightly)s", "%(planned)s", "%(batch)s")
        return f" for queue {queue}" if any(name in arguments for name in names) else ""

    def rows(self, view: str, queue: str) -> int:
        """How many rows a view shows of a queue."""
        column = {"queues": "name", "topics": "name", "scheduled_on_topics": "topic", "workers": "any (queues)"}.get(
            view, "queue"
        )
        name = {
            "topics": f"topic-{queue}",
            "scheduled_on_topics": f"topic-{queue}",
            "subscriptions": f"topic-{queue}/Subscriptions/s",
            "rules": f"topic-{queue}/Subscriptions/s",
        }.get(view, queue)
        (count,) = self.ask(f"select count(*) from pgqueue.{view} where %s = {column}", name)
        return int(count)

    @contextmanager
    def as_the_role(self) -> Iterator[None]:
        with self.connection.transaction(force_rollback=True):
            self.connection.execute(f"set local {self.become} {self.role}".encode())
            yield


@contextmanager
def house_in(database: Database) -> Iterator[House]:
    role = f"test_{uuid4().hex[:12]}"
    with database.connect(autocommit=True) as connection:
        connection.execute(f"create role {role}; create role {role}_group".encode())
        try:
            house = House(connection, role)
            house.fill("mine")
            house.fill("theirs")
            yield house
        finally:
            connection.execute("reset session authorization")
            connection.execute(f"drop role {role}; drop role {role}_group".encode())
