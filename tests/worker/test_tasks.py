"""Tasks: calls of functions are sent as messages, in the sender's transaction, and run by workers."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from traceback import format_exception
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from pydantic import BaseModel

import pgqueue
import pgqueue.aio
from pgqueue import DeadLetter, Interceptor, Message, QueueClient, RetryPolicy, Tasks, Worker
from pgqueue.encryption import EncryptedBodies
from pgqueue.errors import (
    AccessDeniedError,
    ConnectionLostError,
    InvalidArgumentError,
    MessageNotReadableError,
    MessageNotSerializableError,
    QueueNotFoundError,
)
from pgqueue.testing import Database
from tests.patience import PATIENCE, eventually
from tests.worker.scene import Running

AT_ONCE = RetryPolicy(first_delay=timedelta(0))
HOUR = timedelta(hours=1)
BLOCKED = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


@pytest.fixture
def client(database: Database) -> Iterator[QueueClient]:
    with QueueClient(database.dsn) as client:
        client.create_queue("mails")
        yield client


@pytest.fixture
def tasks(client: QueueClient) -> Tasks:
    return Tasks(client)


def worked_off(tasks: Tasks, **options: Any) -> None:
    """Run a worker of these tasks until there is nothing to do."""
    running = Running(Worker(tasks, retry=AT_ONCE, **options))
    eventually(lambda: all(tasks.client.queue(queue).peek() == [] for queue in tasks.queues))
    running.stop()


def waiting(client: QueueClient) -> list[Any]:
    return client.queue("mails").peek(max_messages=100)


def test_a_task_is_still_a_function(tasks: Tasks) -> None:
    @tasks.task(queue="mails")
    def double(number: int, *, twice: bool = False) -> int:
        """Doubles."""
        return number * (4 if twice else 2)

    assert (double(2), double(2, twice=True)) == (4, 8)
    assert (double.name, double.queue, double.__doc__) == ("double", "mails", "Doubles.")


@pytest.mark.core
def test_a_call_is_sent_with_the_transaction_and_run_in_that_of_the_worker(database: Database, tasks: Tasks) -> None:
    @tasks.task(queue="mails")
    def ship(order: int, tx: psycopg.Connection[Any], *, express: bool = False) -> None:
        tx.execute("insert into shipped values (%s, %s)", [order, express])

    with database.connect() as connection:
        connection.execute("create table shipped (number int, express bool)")
        connection.commit()
        ship.send(7, transaction=connection)
        connection.rollback()
        ship.send(8, express=True, transaction=connection)
        ship.send(order=9, transaction=connection)
        connection.commit()
        worked_off(tasks, transaction="psycopg")
        assert connection.execute("select * from shipped order by 1").fetchall() == [(8, True), (9, False)]


def test_a_message_that_was_sent_by_sql_is_a_call(database: Database, tasks: Tasks) -> None:
    calls = []

    @tasks.task(queue="mails")
    def remind(order: int, on: datetime | None = None) -> None:
        calls.append((order, on))

    with database.connect(autocommit=True) as connection:
        connection.execute("select pgqueue.send('mails', '{\"order\": 7}', subject => 'remind')")
        connection.execute("select pgqueue.send('mails', '{\"order\": \"seven\"}', subject => 'remind')")
    worked_off(tasks)
    assert calls == [(7, None)]
    (dead,) = tasks.client.queue("mails").dead_letters.peek()
    assert dead.dead_letter_reason == "InvalidBody"
    assert "order" in (dead.dead_letter_error_description or "")


def test_an_argument_of_another_type_is_not_sent(tasks: Tasks) -> None:
    @tasks.task(queue="mails")
    def remind(order: int) -> None: ...

    with pytest.raises(
        MessageNotSerializableError, match=r"not a tests\.worker\.test_tasks\.remind: order: it is 'seven'"
    ):
        remind.send("seven")
    assert waiting(tasks.client) == []


def test_fields_of_the_message_are_given_beside_the_arguments(database: Database, tasks: Tasks) -> None:
    @tasks.task(queue="mails", name="reminder")
    def remind(order: int) -> None: ...

    remind.send(7, priority=-3, correlation_id="c", group_id="a", delay=HOUR)
    (message,) = waiting(tasks.client)
    assert (message.body, message.subject, message.priority) == ({"order": 7}, "reminder", -3)
    assert message.session_id == "a"
    assert message.correlation_id == "c"
    with database.connect() as connection:
        row = connection.execute("select pgqueue.clock()").fetchone()
    assert row is not None
    assert timedelta(0) < row[0] + HOUR - message.scheduled_enqueue_time < timedelta(minutes=5)
    with pytest.raises(InvalidArgumentError, match="either delay or scheduled_enqueue_time"):
        remind.send(7, delay=HOUR, scheduled_enqueue_time=row[0])


def test_calls_are_members_of_a_batch(tasks: Tasks) -> None:
    calls = []

    @tasks.task(queue="mails")
    def remind(order: int) -> None:
        calls.append(order)

    batch = tasks.client.create_batch(then=remind.message(0), to="mails")
    for order in (1, 2):
        remind.send(order, batch=batch)
    batch.close()
    worked_off(tasks)
    assert calls == [1, 2, 0]
    assert batch.counts().completed == 2


def test_the_message_of_a_call_is_sent_by_others(tasks: Tasks) -> None:
    calls = []

    @tasks.task(queue="mails", unique_key="order-{order}")
    def remind(order: int, on: datetime | None = None) -> None:
        calls.append((order, on))

    message = remind.message(7, on=datetime(2030, 1, 1, tzinfo=UTC), priority=-3)
    assert message.body == {"order": 7, "on": "2030-01-01T00:00:00+00:00"}
    assert (message.subject, message.unique_key, message.priority) == ("remind", "order-7", -3)
    tasks.client.queue("mails").send(message)
    worked_off(tasks)
    assert calls == [(7, datetime(2030, 1, 1, tzinfo=UTC))]
    with pytest.raises(MessageNotSerializableError, match="order"):
        remind.message("seven")


def test_tasks_use_another_client_in_a_block(client: QueueClient) -> None:
    with QueueClient("host=/nowhere dbname=shop") as own:
        tasks = Tasks(own)

        @tasks.task(queue="mails")
        def remind(order: int) -> None: ...

        with tasks.using(client):
            remind.send(7)
            worked_off(tasks)
            assert waiting(client) == []
        assert tasks.client is own
        with pytest.raises(ConnectionLostError):
            remind.send(8)
        with pytest.raises(InvalidArgumentError, match="takes a client"), tasks.using("shop"):  # type: ignore[arg-type]
            pass


@pytest.mark.parametrize("key", ["order-{order}", lambda order, city: f"order-{order}"])
def test_a_call_with_a_unique_key_waits_once(tasks: Tasks, key: Any) -> None:
    @tasks.task(queue="mails", unique_key=key)
    def remind(order: int, city: str = "Basel") -> None: ...

    first = remind.send(7)
    assert remind.send(7, "Bern") == first
    assert remind.send(8) != first
    assert remind.send(7, unique_key="another") != first


@pytest.mark.parametrize("key", ["{number:z}", "{number!q}", "{number.year}"])
def test_a_unique_key_that_does_not_fit_the_arguments_is_refused(tasks: Tasks, key: str) -> None:
    @tasks.task(queue="mails", unique_key=key)
    def count(number: int) -> None: ...

    with pytest.raises(InvalidArgumentError, match="the unique_key of count is no text of its arguments"):
        count.send(7)


@pytest.mark.parametrize(
    ("key", "flaw"),
    [
        ("{", "Single '{'"),
        ("}", "Single '}'"),
        ("order-{number}", "{number} is none"),
        ("{0}", "{0} is none"),
        ("{}", "{} is none"),
        ("{number.year}", "{number.year} is none"),
    ],
)
def test_a_task_with_a_unique_key_of_something_else_is_refused(tasks: Tasks, key: str, flaw: str) -> None:
    declared = tasks.task(queue="mails", unique_key=key)
    with pytest.raises(InvalidArgumentError, match=f"remind is no text of its arguments: {re.escape(flaw)}"):

        @declared
        def remind(order: int) -> None: ...


def test_a_task_has_its_own_number_of_attempts(tasks: Tasks) -> None:
    attempts: dict[str, int] = {"once": 0, "often": 0}

    @tasks.task(queue="mails", max_attempts=2)
    def once(why: str) -> None:
        attempts["once"] += 1
        raise ValueError(why)

    @tasks.task(queue="mails")
    def often() -> None:
        attempts["often"] += 1
        if attempts["often"] < 4:
            raise ValueError

    once.send("no")
    often.send()
    worked_off(tasks)
    assert attempts == {"once": 2, "often": 4}
    (dead,) = tasks.client.queue("mails").dead_letters.peek(max_messages=9)
    assert (dead.subject, dead.dead_letter_reason) == ("once", "ValueError")


@dataclass
class Receipt:
    order: int
    at: datetime


def test_the_sender_gets_what_a_call_returns(client: QueueClient, tasks: Tasks) -> None:
    client.update_queue("mails", result_retention=HOUR)

    @tasks.task(queue="mails")
    def ship(order: int, tx: Any) -> Receipt:
        if order < 0:
            raise DeadLetter("Refused")
        return Receipt(order, datetime(2026, 1, 2, tzinfo=UTC))

    @tasks.task(queue="mails")
    def nothing() -> None: ...

    shipped, refused, silent = ship.send(7), ship.send(-7), nothing.send()
    assert ship.result(shipped) is None
    worked_off(tasks, transaction="psycopg")
    assert ship.wait_for(shipped, timeout=HOUR).result == Receipt(7, datetime(2026, 1, 2, tzinfo=UTC))
    assert ship.wait_for(refused).state == "DEAD_LETTERED"
    assert (nothing.wait_for(silent).state, nothing.wait_for(silent).result) == ("COMPLETED", None)


def test_the_result_of_a_call_is_dropped_where_no_results_are_kept(client: QueueClient, tasks: Tasks) -> None:
    @tasks.task(queue="mails")
    def count() -> int:
        return 7

    count.send()
    worked_off(tasks)
    client.update_queue("mails", result_retention=HOUR)
    count._keeps_results.clear()
    count.send()
    worked_off(tasks)
    client.update_queue("mails", result_retention=None)
    count.send()
    worked_off(tasks)  # its first delivery fails, because the queue was changed
    assert client.queue("mails").dead_letters.peek() == []


@pytest.mark.parametrize("transaction", [None, "psycopg"])
def test_a_task_may_settle_its_message_and_return_something(
    client: QueueClient, tasks: Tasks, transaction: str | None
) -> None:
    client.update_queue("mails", result_retention=HOUR)
    calls = []

    def refuse(message: Any, **given: Any) -> str:
        calls.append(message.delivery_count)
        message.dead_letter("Refused", transaction=given.get("tx"))
        return "refused"

    def refuse_within(message: Any, tx: Any) -> str:
        return refuse(message, tx=tx)

    def refuse_without(message: Any) -> str:
        return refuse(message)

    task = tasks.task(queue="mails", name="refuse")(refuse_within if transaction else refuse_without)
    number = task.send()
    worked_off(tasks, transaction=transaction)
    assert (task.wait_for(number).state, calls) == ("DEAD_LETTERED", [1])


def test_a_worker_asks_its_own_database_whether_results_are_kept(client: QueueClient) -> None:
    client.update_queue("mails", result_retention=HOUR)
    with QueueClient("postgresql://nobody@127.0.0.1:1/nowhere") as elsewhere:
        tasks = Tasks(elsewhere)

        @tasks.task(queue="mails")
        def double(number: int) -> int:
            return 2 * number

        mails = client.queue("mails")
        number = mails.send(Message({"number": 2}, subject="double"))
        running = Running(Worker(client, tasks, retry=AT_ONCE))
        assert mails.wait_for(number, timeout=HOUR).result == 4
        running.stop()


def test_a_result_is_of_the_type_that_the_function_names(client: QueueClient, tasks: Tasks) -> None:
    client.update_queue("mails", result_retention=HOUR)

    @tasks.task(queue="mails", max_attempts=1)
    def count(wrong: bool) -> list[int]:
        return ["seven"] if wrong else [7]  # type: ignore[list-item]

    right, wrong = count.send(False), count.send(True)
    worked_off(tasks)
    assert (count.wait_for(right).result, count.wait_for(wrong).state) == ([7], "DEAD_LETTERED")
    error = count.wait_for(wrong).last_error
    assert error is not None
    assert "the result of count is not a list[int]" in (error.text or "")

    later = Tasks(client).task(queue="mails", name="count")(changed)
    outcome = later.wait_for(right)  # a call that was made before the function was changed
    assert (outcome.state, outcome.raw_result) == ("COMPLETED", "[7]")
    with pytest.raises(MessageNotReadableError, match=r"it is not a tests.worker.test_tasks.Receipt: it is \[7\]"):
        outcome.result  # noqa: B018 - it is read here


class Patient(BaseModel):
    name: str


def changed() -> Receipt:
    raise NotImplementedError


def test_a_schedule_is_created_and_changed_by_its_declaration(client: QueueClient) -> None:
    def declared(**options: Any) -> pgqueue.Schedule:
        tasks = Tasks(client)

        @tasks.periodic(timezone="Europe/Zurich", **options)
        @tasks.task(queue="mails")
        def clean(days: int = 3) -> None: ...

        tasks.declare_schedules()
        (schedule,) = client.list_schedules()
        return schedule

    first = declared(cron="30 2 * * *")
    assert (first.name, first.queue, first.timezone) == ("clean", "mails", "Europe/Zurich")
    assert (first.message.body, first.message.subject) == ({"days": 3}, "clean")
    client.pause_schedule("clean")
    assert declared(cron="30 2 * * *", jitter=timedelta(0)).is_paused
    second = declared(cron="30 3 * * *")
    assert (second.cron, second.is_paused) == ("30 3 * * *", False)


def test_a_schedule_that_another_process_is_creating_is_declared(database: Database, client: QueueClient) -> None:
    tasks = Tasks(client)
    tasks.periodic(every=HOUR)(tasks.task(queue="mails", name="clean")(lambda: None))
    with database.connect() as other, ThreadPoolExecutor() as threads:
        other.execute("select pgqueue.create_schedule('clean', 'mails', every => '1 hour', body => '{}')")
        declared = threads.submit(tasks.declare_schedules)
        with database.connect(autocommit=True) as observer:
            eventually(lambda: observer.execute(BLOCKED).rowcount)
        other.commit()
        declared.result(PATIENCE)
    assert [schedule.name for schedule in client.list_schedules()] == ["clean"]


class Stamp(Interceptor):
    def send(self, message: Any, call: Any) -> Any:
        return call(replace(message, body={**message.body, "stamp": 1}))


@pytest.mark.parametrize(
    "default",
    [{"a": 1, "b": [2.5]}, {1: 2}, 1e300, Receipt(7, datetime(2026, 1, 2, tzinfo=UTC))],
    ids=lambda default: type(default).__name__,
)
def test_a_schedule_that_is_as_declared_is_left_alone(database: Database, client: QueueClient, default: Any) -> None:
    def clean(what: Any = default) -> None: ...

    for cipher in ([], [EncryptedBodies([EncryptedBodies.generate_key()])]):
        with QueueClient(database.dsn, interceptors=[*cipher, Stamp()]) as own:
            tasks = Tasks(own)
            tasks.periodic(every=HOUR)(tasks.task(queue="mails", unique_key="clean")(clean))
            tasks.declare_schedules()
            first = own.get_schedule("clean")
            assert first.message.unique_key == "clean"
            tasks.declare_schedules()
            assert own.get_schedule("clean").created_at == first.created_at


def test_a_schedule_whose_key_is_lost_is_created_again(database: Database, client: QueueClient) -> None:
    def declared(*interceptors: Any) -> Any:
        with QueueClient(database.dsn, interceptors=interceptors) as own:
            tasks = Tasks(own)
            tasks.periodic(every=HOUR, name="clean")(tasks.task(queue="mails")(lambda: None))
            tasks.declare_schedules()
            return own.get_schedule("clean").message.body

    for _ in range(2):
        assert declared(EncryptedBodies([EncryptedBodies.generate_key()])) == {}
    with pytest.raises(MessageNotReadableError, match="the client has no keys"):
        declared()


def test_a_schedule_stays_when_its_new_declaration_is_refused(client: QueueClient) -> None:
    def declare(**when: Any) -> None:
        tasks = Tasks(client)
        tasks.periodic(**when, name="clean")(tasks.task(queue="mails")(lambda: None))
        tasks.declare_schedules()

    declare(every=HOUR)
    for wrong in ({"cron": "no cron"}, {"every": HOUR, "timezone": "Atlantis"}):
        with pytest.raises(InvalidArgumentError):
            declare(**wrong)
        assert client.get_schedule("clean").every == HOUR


def test_the_arguments_of_an_encrypted_call_are_not_quoted(database: Database, client: QueueClient) -> None:
    with QueueClient(database.dsn, interceptors=[EncryptedBodies([EncryptedBodies.generate_key()])]) as own:

        @Tasks(own).task(queue="mails")
        def treat(patient: Patient, room: int) -> None: ...

        patient, room = Patient(name="Ada"), "Ada's"
        with pytest.raises(MessageNotSerializableError) as refusal:
            treat.send(patient, room)
    assert "Ada" not in "".join(format_exception(refusal.value))


def test_a_worker_declares_schedules_before_it_runs(tasks: Tasks) -> None:
    calls = []

    @tasks.periodic(every=timedelta(seconds=1))
    @tasks.task(queue="mails")
    def tick() -> None:
        calls.append(time.monotonic())

    running = Running(Worker(tasks))
    eventually(lambda: len(calls) > 1)
    running.stop()


def test_a_worker_of_some_queues_has_their_schedules(client: QueueClient, tasks: Tasks) -> None:
    client.create_queue("others")
    for queue in ("mails", "others"):
        tasks.periodic(cron="0 0 * * *")(tasks.task(queue=queue, name=f"clean-{queue}")(lambda: None))
    chosen = tasks.only("others")
    assert isinstance(chosen, Tasks)
    chosen.declare_schedules()
    assert [schedule.name for schedule in client.list_schedules()] == ["clean-others"]
    with pytest.raises(InvalidArgumentError, match="there is a schedule clean-mails already"):
        tasks.periodic(every=HOUR, name="clean-mails")(tasks.task(queue="mails", name="other")(lambda: None))


def test_a_schedule_that_cannot_be_declared_ends_the_worker(client: QueueClient, tasks: Tasks) -> None:
    tasks.periodic(cron="0 0 * * *")(tasks.task(queue="nowhere", name="clean")(lambda: None))
    with pytest.raises(QueueNotFoundError):
        Worker(tasks).run()


def test_a_role_that_may_only_receive_runs_what_is_declared(database: Database, client: QueueClient) -> None:
    def tasks_of(client: QueueClient) -> Tasks:
        tasks = Tasks(client)
        tasks.periodic(cron="0 0 * * *")(tasks.task(queue="mails", name="clean")(lambda: None))
        return tasks

    with database.connect(autocommit=True) as connection:
        connection.execute("create role runner login")
        client.grant_receive("mails", "runner")
    try:
        with QueueClient(make_conninfo(database.direct, user="runner")) as runners:
            with pytest.raises(AccessDeniedError):
                tasks_of(runners).declare_schedules()
            tasks_of(client).declare_schedules()
            tasks_of(runners).declare_schedules()
    finally:
        with database.connect(autocommit=True) as connection:
            connection.execute("drop owned by runner")
            connection.execute("drop role runner")


def test_tasks_go_to_a_worker_alone(client: QueueClient, tasks: Tasks) -> None:
    tasks.task(queue="mails")(lambda: None)
    assert Worker(client, tasks).tally.received == 0
    with pytest.raises(InvalidArgumentError, match="Worker"):
        Worker(tasks, print)  # type: ignore[call-overload]
    with pytest.raises(InvalidArgumentError, match=r"Worker\(queue, handler\)"):
        Worker(client)  # type: ignore[call-overload]


def test_a_coroutine_function_is_a_task(database: Database, client: QueueClient) -> None:
    async def run() -> None:
        async with pgqueue.aio.QueueClient(database.dsn) as own:
            tasks = pgqueue.aio.Tasks(own)

            @tasks.task(queue="mails")
            async def ship(order: int, tx: psycopg.AsyncConnection[Any], message: Any) -> None:
                await tx.execute("insert into shipped values (%s)", [order + message.delivery_count])
                worker.stop()

            await ship.send(7)
            worker = pgqueue.aio.Worker(tasks, transaction="psycopg")
            async with asyncio.timeout(PATIENCE):
                await worker.run()

    with database.connect(autocommit=True) as connection:
        connection.execute("create table shipped (number int)")
        asyncio.run(run())
        assert connection.execute("select number from shipped").fetchall() == [(8,)]
    assert waiting(client) == []


def test_a_coroutine_function_has_results_and_schedules(database: Database, client: QueueClient) -> None:
    client.update_queue("mails", result_retention=HOUR)

    class Stamp(pgqueue.aio.Interceptor):
        async def send(self, message: Any, call: Any) -> Any:
            is_of_schedule = isinstance(message.body, dict)
            return await call(replace(message, body={**message.body, "stamp": 1}) if is_of_schedule else message)

    async def run() -> None:
        async with asyncio.timeout(PATIENCE), pgqueue.aio.QueueClient(database.dsn, interceptors=[Stamp()]) as own:
            tasks = pgqueue.aio.Tasks(own)

            @tasks.periodic(every=HOUR)
            @tasks.task(queue="mails", unique_key="double-{number}")
            async def double(number: int = 2, *, refused: bool = False, message: Any = None) -> int:
                if refused:
                    await message.dead_letter("Refused")
                return 2 * number

            await tasks.declare_schedules()
            first = await own.get_schedule("double")
            doubled, refused = await double.send(), await double.send(3, refused=True)
            worker = pgqueue.aio.Worker(tasks)
            running = asyncio.create_task(worker.run())
            assert (await double.wait_for(doubled)).result == 4
            assert (await double.wait_for(refused)).state == "DEAD_LETTERED"
            worker.stop()
            await running
            last = await own.get_schedule("double")
            assert (last.created_at, last.message.unique_key) == (first.created_at, "double-2")

    asyncio.run(run())


def test_a_worker_serves_the_schema_that_its_tasks_are_sent_to(tasks: Tasks, database: Database) -> None:
    with QueueClient(database.dsn, schema="jobs") as other:
        with pytest.raises(InvalidArgumentError, match=r'sent to the schema "pgqueue", and .* from "jobs": use one'):
            Worker(other, tasks)
        with pytest.raises(InvalidArgumentError, match=r'sent to the schema "jobs", and .* from "pgqueue": use one'):
            Worker(tasks.client, Tasks(other))
