"""The public surface, written out by hand: a rename here breaks the programs of users."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any

import pytest
import typer

import pgqueue
import pgqueue.aio.notifications
import pgqueue.notifications
import pgqueue.testing
from pgqueue.cli.app import app
from pgqueue.testing.plugin import SharedServer

MODULES = (pgqueue, pgqueue.aio)
NOTIFYING = (pgqueue.notifications, pgqueue.aio.notifications)
FACES = [pytest.param(face, id=face.__name__) for face in MODULES]

PROMISED = """
QueueClient.embedded(directory=, schema=)
QueueClient.close()
QueueClient.migrate()
QueueClient.create_queue(name, exist_ok=, **settings)
QueueClient.get_queue(name)
QueueClient.get_queue_runtime_properties(name)
QueueClient.update_queue(name, **settings)
QueueClient.pause_queue(name)
QueueClient.resume_queue(name)
QueueClient.set_group_limits(queue, group_id, **limits)
QueueClient.delete_queue(name)
QueueClient.purge_queue(name)
QueueClient.list_queues()
QueueClient.list_queues_runtime_properties(exact=)
QueueClient.create_schedule(name, queue=, message=, cron=, every=, timezone=, catch_up=, jitter=, start=, end=, exist_ok=)
QueueClient.get_schedule(name)
QueueClient.list_schedules()
QueueClient.pause_schedule(name)
QueueClient.resume_schedule(name)
QueueClient.run_schedule(name)
QueueClient.delete_schedule(name)
QueueClient.create_topic(name, exist_ok=, **settings)
QueueClient.get_topic(name)
QueueClient.update_topic(name, **settings)
QueueClient.delete_topic(name)
QueueClient.list_topics()
QueueClient.create_subscription(topic, name, filter=, set_properties=, exist_ok=, **settings)
QueueClient.update_subscription(topic, name, filter=, set_properties=, **settings)
QueueClient.delete_subscription(topic, name)
QueueClient.list_subscriptions(topic)
QueueClient.get_subscription(topic, name)
QueueClient.create_rule(topic, subscription, name, filter=, set_properties=, exist_ok=)
QueueClient.update_rule(topic, subscription, name, filter=, set_properties=)
QueueClient.delete_rule(topic, subscription, name)
QueueClient.list_rules(topic, subscription)
QueueClient.sweep(dry_run=, thorough=)
QueueClient.grant_send(queue, role)
QueueClient.grant_receive(queue, role)
QueueClient.grant_monitor(role)
QueueClient.grant_admin(role)
QueueClient.revoke_send(queue, role)
QueueClient.revoke_receive(queue, role)
QueueClient.revoke_monitor(role)
QueueClient.revoke_admin(role)
QueueClient.list_grants()
QueueClient.queue(name, body_type=)
QueueClient.topic(name, body_type=)
QueueClient.subscription(topic, name, body_type=)
Topic.send(message, transaction=, require_subscription=)
Topic.send_batch(messages, transaction=, require_subscription=)
Topic.cancel_scheduled(sequence_numbers, transaction=)
Queue.send(message, on_conflict=, batch=, transaction=)
Queue.send_batch(messages, on_conflict=, batch=, transaction=)
Queue.schedule(message, at=, batch=, transaction=)
Queue.cancel_scheduled(sequence_numbers, transaction=)
Queue.sender(max_in_flight=, retry=)
Queue.receive(max_messages=, wait=, lock_duration=)
Queue.receive_deferred(sequence_numbers, lock_duration=)
Queue.accept_session(session_id=, wait=, lock_duration=)
Queue.receive_and_delete(max_messages=, wait=, transaction=)
Queue.receiver(receive_mode=, prefetch=, sub_queue=)
Queue.peek(max_messages=, from_sequence_number=)
Queue.complete_batch(received, transaction=)
Queue.explain_message(sequence_number)
Queue.unlock(sequence_number)
Queue.find_messages(state=, subject=, older_than=, application_properties=, session_id=, message_id=, correlation_id=, reason=, after=, max_messages=)
Queue.delete_messages(sequence_numbers, transaction=)
Queue.delete_matching(state=, subject=, older_than=, application_properties=, session_id=, max_messages=)
Queue.cancel(sequence_number, reason=)
Queue.move_messages(sequence_numbers, to=, transaction=)
Queue.reschedule(sequence_number, at=)
Queue.abandon_batch(received, delay=, properties=, error=, transaction=)
Queue.dead_letter_batch(received, reason=, description=, properties=, error=, transaction=)
Queue.defer_batch(received, properties=, transaction=)
Queue.renew_lock_batch(received, lock_duration=, transaction=)
Queue.history(since=, outcome=, message_id=, sequence_number=, limit=)
Queue.result(sequence_number)
QueueClient.create_batch(then=, to=, on_failure=, transaction=)
QueueClient.batch(batch_id)
Batch.close(transaction=)
Batch.counts()
Batch.wait(timeout=)
Queue.wait_for(sequence_number, timeout=)
DeadLetters.purge(sequence_numbers=)
DeadLetters.resubmit(sequence_numbers=, reason=, older_than=, limit=)
ReceivedMessage.complete(result=, transaction=)
ReceivedMessage.abandon(delay=, properties=, error=, transaction=)
ReceivedMessage.dead_letter(reason, description=, properties=, error=, transaction=)
ReceivedMessage.postpone(delay, body=, transaction=)
ReceivedMessage.defer(properties=, transaction=)
ReceivedMessage.record_effect(effect, result=, keep=, transaction=)
ReceivedMessage.recorded_effects()
ReceivedMessage.renew_lock(lock_duration=, transaction=)
ReceivedMessage.get_session_state(transaction=)
ReceivedMessage.set_session_state(state, transaction=)
ReceivedMessage.fault()
ReceivedMessage.resolve()
ReceivedMessage.transaction(source=)
Receiver.close()
Queue.list_sessions()
Session.receive(max_messages=, wait=)
Session.receive_deferred(sequence_numbers)
Session.peek(max_messages=, from_sequence_number=)
Session.get_state(transaction=)
Session.set_state(state, transaction=)
Session.renew_lock(lock_duration=)
Session.release(transaction=)
Sender.send(message)
Sender.close()
PendingSend.result(timeout=)
PendingSend.done()
Worker.run()
Worker.stop()
AutoLockRenewer.register(received)
AutoLockRenewer.close()
ReceiveContext.on_complete(callback)
ReceiveContext.on_abandon(callback)
ReceiveContext.on_fault(callback)
ReceiveContext.fault()
Handlers.handler(queue, subject=, max_attempts=)
Handlers.only(*queues)
Handlers.describe()
Task.send(*args, transaction=, delay=, on_conflict=, batch=, **given)
Task.message(*args, **given)
Task.result(sequence_number)
Task.wait_for(sequence_number, timeout=)
Tasks.task(queue=, name=, unique_key=, max_attempts=)
Tasks.periodic(cron=, every=, timezone=, catch_up=, jitter=, name=)
Tasks.only(*queues)
Tasks.using(client)
Tasks.declare_schedules(client=)
Interceptor.send(message, call)
Interceptor.send_batch(messages, call)
Interceptor.handle(received, call)
Schedule.upcoming(count=)
"""  # noqa: E501

NOTIFICATIONS_PROMISED = """
Transmitter.register(recipient)
Transmitter.deregister(recipient)
Transmitter.notify_all(notification, transaction=, errors=)
QueuedTransmitter.notify_all(notification, transaction=, errors=)
QueuedTransmitter.process_pending()
QueuedTransmitter.run()
QueuedTransmitter.stop()
Bridge.receive(notification, transaction)
NotificationTypes.register(name, version=)
NotificationTypes.upgrade(name, from_version=)
NotificationTypes.knows(notification)
NotificationTypes.to_body(notification)
NotificationTypes.from_body(body)
Pace.rest(attempts)
Pace.rest_unready(age)
"""

FIELDS = {
    "Message": {
        "body", "message_id", "application_properties", "content_type", "correlation_id", "subject", "reply_to",
        "priority", "time_to_live", "scheduled_enqueue_time", "session_id", "reply_to_session_id", "to",
        "partition_key", "unique_key", "unique_scope",
    },
    "ReceivedMessage": {
        "body", "message_id", "application_properties", "content_type", "correlation_id", "subject", "reply_to",
        "priority", "queue", "sequence_number", "delivery_count", "enqueued_time", "lock_token", "locked_until",
        "expires_at", "dead_letter_reason", "dead_letter_error_description", "dead_letter_source", "context",
    },
    "QueueProperties": {
        "name", "lock_duration", "max_delivery_count", "max_message_size", "status", "user_metadata",
        "default_message_time_to_live", "dead_lettering_on_message_expiration", "requires_duplicate_detection",
        "duplicate_detection_history_time_window", "max_queue_length", "retain_history", "retain_errors",
        "auto_delete_on_idle", "requires_session", "forward_to", "forward_dead_lettered_messages_to",
        "max_receive_rate", "max_concurrent", "priority_ageing", "result_retention", "max_concurrent_per_group",
        "max_receive_rate_per_group", "fair", "paused_at",
    },
    "QueueRuntimeProperties": {
        "name", "ready", "locked", "deferred", "expired", "exhausted", "scheduled", "dead_letters",
        "oldest_enqueued_time", "size_in_bytes",
    },
    "SettlementResult": {"sequence_number", "error", "locked_until"},
    "BatchCounts": {"total", "pending", "completed", "dead_lettered", "deleted", "is_finished"},
    "Outcome": {"state", "result", "error", "last_error", "settled_at"},
    "SweepReport": {
        "expired", "dead_lettered", "returned", "activated", "forgotten", "reclaimed_days", "deleted_queues",
        "forwarded",
    },
    "Schedule": {
        "name", "queue", "cron", "every", "timezone", "catch_up", "jitter", "start", "end", "is_paused", "next_due",
        "last_due", "last_error", "created_at", "read_at",
    },
    "FoundMessage": {
        "sequence_number", "state", "delivery_count", "enqueued_time", "scheduled_enqueue_time", "locked_until",
        "locked_by", "expires_at", "message_id", "correlation_id", "subject", "session_id", "dead_letter_reason",
        "dead_lettered_at", "last_error", "body",
    },
    "TopicProperties": {
        "name", "subscriptions", "created_at", "status", "user_metadata", "default_message_time_to_live",
        "requires_duplicate_detection", "duplicate_detection_history_time_window",
    },
    "SubscriptionProperties": {"topic", "name", "filter", "set_properties", "created_at", "queue"},
}  # fmt: skip

#: The options that each constructor or call takes; it may take more.
OPTIONS = {
    "QueueClient": {"source", "listen", "timeout", "interceptors"},
    "Message": FIELDS["Message"],
    "Worker": {
        "queue",
        "handler",
        "concurrency",
        "transaction",
        "retry",
        "session_idle_timeout",
        "max_messages_per_session",
    },
    "RetryPolicy": {"transaction_attempts", "max_attempts", "first_delay", "max_delay", "jitter", "dead_letter_on"},
    "AutoLockRenewer": {"max_lock_renewal_duration", "on_lock_renew_failure"},
    "deadline": {"timeout"},
    "process": {"received", "work", "source", "retry"},
    "DeadLetter": {"reason", "description"},
    "CorrelationFilter": {
        "message_id", "correlation_id", "subject", "content_type", "reply_to", "session_id", "application_properties",
    },
    "JsonPathFilter": {"path"},
    "SqlFilter": {"sql"},
}  # fmt: skip

#: The functions that anybody with psql may call, with the arguments that they are promised to take; they may take more.
SQL_PROMISED = """
create_queue(queue, lock_duration, max_delivery_count, max_message_size, status, user_metadata)
alter_queue(queue, lock_duration, max_delivery_count, max_message_size, status, user_metadata)
drop_queue(queue)
pause_queue(queue)
resume_queue(queue)
purge_queue(queue)
send(queue, body, message_id)
send_batch(queue, bodies)
schedule(queue, at, body)
cancel_scheduled(queue, sequence_numbers)
receive(queue, max_messages, lock_duration, locked_by)
receive_and_delete(queue, max_messages)
receive_deferred(queue, sequence_numbers, lock_duration)
peek(queue, max_messages, from_sequence_number)
find_messages(queue, state, after, max_messages, message_id, correlation_id, subject, reason)
delete_messages(queue, sequence_numbers)
delete_matching(queue, state, subject, older_than, application_properties, session_id, max_messages)
cancel(queue, sequence_number, reason)
move_messages(queue, sequence_numbers, to)
reschedule(queue, sequence_number, at)
purge_dead_letters(queue, sequence_numbers, reason, older_than, max_messages)
take_sample(max_queues)
record_action(action, queue, messages, details)
heartbeat(worker, host, pid, version, queues, concurrency, is_alive, is_stopping, running, handled, failed, failing)
remove_worker(worker)
complete(queue, sequence_number, lock_token, result)
complete_batch(queue, sequence_numbers, lock_tokens)
abandon(queue, sequence_number, lock_token, delay, properties)
abandon_batch(queue, sequence_numbers, lock_tokens)
dead_letter(queue, sequence_number, lock_token, reason, description)
dead_letter_batch(queue, sequence_numbers, lock_tokens, reason, description)
defer(queue, sequence_number, lock_token)
defer_batch(queue, sequence_numbers, lock_tokens)
renew_lock(queue, sequence_number, lock_token, lock_duration)
renew_lock_batch(queue, sequence_numbers, lock_tokens)
resubmit(queue, sequence_numbers, reason, older_than)
sweep(dry_run)
sweep_all(max_messages, lasts)
grant_send(queue, role)
grant_receive(queue, role)
grant_monitor(role)
grant_admin(role)
revoke_send(queue, role)
revoke_receive(queue, role)
revoke_monitor(role)
revoke_admin(role)
create_schedule(schedule, queue, cron, every, body, timezone, catch_up, jitter, starts_at, ends_at)
drop_schedule(schedule)
pause_schedule(schedule)
resume_schedule(schedule)
run_schedule(schedule)
due_times(schedule, max_due_times)
accept_session(queue, session_id, lock_duration, locked_by)
receive_from_session(queue, session_id, lock_token, max_messages)
renew_session_lock(queue, session_id, lock_token, lock_duration)
release_session(queue, session_id, lock_token)
get_session_state(queue, session_id, lock_token)
set_session_state(queue, session_id, lock_token, state, binary_state)
create_topic(topic, status, user_metadata, default_message_time_to_live, requires_duplicate_detection)
alter_topic(topic, status, user_metadata, default_message_time_to_live, requires_duplicate_detection)
send_to_topic(topic, bodies, scheduled_enqueue_times)
cancel_on_topic(topic, sequence_numbers)
drop_topic(topic)
create_subscription(topic, subscription, correlation_filter, json_path_filter, set_properties, lock_duration)
create_rule(topic, subscription, rule, correlation_filter, json_path_filter, sql_filter, set_properties)
alter_rule(topic, subscription, rule, correlation_filter, json_path_filter, sql_filter, set_properties)
drop_rule(topic, subscription, rule)
peek_session(queue, session_id, lock_token, max_messages, from_sequence_number)
alter_subscription(topic, subscription, correlation_filter, json_path_filter, set_properties, lock_duration)
drop_subscription(topic, subscription)
publish_to_topic(topic, body, binary_body, message_id, subject, application_properties, require_subscription)
publish_batch_to_topic(topic, bodies, subjects, application_properties, require_subscription)
"""

SQL_VIEWS = """
queues locked_messages expired_locks dead_letters scheduled_messages deferred_messages messages history schedules
topics subscriptions sessions results
"""

COMMANDS = """
demo
migrate --json --dsn
queue create --json --dsn
queue list --json --dsn
queue show --json --dsn
queue update --json --dsn
queue pause --json --dsn
queue resume --json --dsn
queue delete --json --dsn
queue purge --json --dsn
send --file --topic --json --dsn
receive --json --dsn
peek --json --dsn
find --state --subject --older-than --property --session-id --json --dsn
delete --state --subject --older-than --property --session-id --limit --yes --json --dsn
cancel --reason --json --dsn
move --to --state --subject --older-than --property --session-id --json --dsn
reschedule --at --json --dsn
stats --watch --json --dsn
result --json --dsn
wait --timeout --json --dsn
dead-letters list --json --dsn
dead-letters show --json --dsn
dead-letters resubmit --json --dsn
dead-letters purge --json --dsn
schedule create --cron --every --timezone --catch-up --jitter --start --end --json --dsn
schedule list --json --dsn
schedule show --json --dsn
schedule next --count --json --dsn
schedule pause --json --dsn
schedule resume --json --dsn
schedule run --json --dsn
schedule delete --json --dsn
topic create --json --dsn
topic list --json --dsn
topic delete --json --dsn
subscription create --subject --property --json-path --set-property --json --dsn
subscription list --json --dsn
subscription update --subject --property --json-path --set-property --no-filter --set-nothing --json --dsn
subscription delete --json --dsn
rule create --subject --property --json-path --sql --set-property --exist-ok --json --dsn
rule update --subject --property --json-path --sql --set-property --no-filter --set-nothing --json --dsn
rule list --json --dsn
rule delete --json --dsn
sweep --dry-run --thorough --json --dsn
worker --dsn
doctor --invariants --json --dsn
bench --messages --size --queue --json --dsn
dashboard --host --port --writable --accounts --proxy-header --dsn
grant send --json --dsn
grant receive --json --dsn
grant monitor --json --dsn
grant admin --json --dsn
revoke send --json --dsn
revoke receive --json --dsn
revoke monitor --json --dsn
revoke admin --json --dsn
grants --json --dsn
"""

#: Of `pgqueue.testing`, which has one face.
TESTING = "database clock drain"

ERRORS = """
LockLostError MessageAlreadySettledError MessageNotFoundError MessageSizeExceededError MessageNotSerializableError
QueueNotFoundError QueueAlreadyExistsError QueueDisabledError QueueFullError ScheduleNotFoundError
ScheduleAlreadyExistsError TopicNotFoundError TopicAlreadyExistsError NoSubscriptionError RuleNotFoundError
RuleAlreadyExistsError InvalidStateError FaultedError
TransactionRequiredError OperationTimeoutError OutOfResourcesError ConnectionLostError AccessDeniedError
SchemaVersionError SendError
"""


def call(owner: str, name: str, member: Any) -> str:
    parameters = [parameter for parameter in inspect.signature(member).parameters.values() if parameter.name != "self"]
    given = [written(each) for each in parameters]
    return f"{owner}.{name}({', '.join(given)})"


def written(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.VAR_KEYWORD:
        return f"**{parameter.name}"
    if parameter.kind is parameter.VAR_POSITIONAL:
        return f"*{parameter.name}"
    return parameter.name + ("" if required(parameter) else "=")


def required(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY


def in_each(faces: Sequence[Any], promised: Iterable[str]) -> list[Any]:
    return [pytest.param(face, name, id=f"{face.__name__}, {name}") for face in faces for name in promised]


@pytest.mark.parametrize(
    ("face", "promised"),
    [
        *in_each(MODULES, PROMISED.strip().splitlines()),
        *in_each(NOTIFYING, NOTIFICATIONS_PROMISED.strip().splitlines()),
    ],
)
def test_a_promised_call_can_be_made_as_promised(face: Any, promised: str) -> None:
    owner, name = promised.partition("(")[0].split(".")
    assert call(owner, name, getattr(getattr(face, owner), name)) == promised


OWNERS = ["Queue", "QueueClient", "Topic", "DeadLetters", "ReceivedMessage", "Receiver", "Sender", "PendingSend"]


@pytest.mark.parametrize(
    ("face", "owner"),
    [
        *in_each(MODULES, OWNERS),
        *in_each(NOTIFYING, ["Transmitter", "QueuedTransmitter", "Bridge", "NotificationTypes", "Pace"]),
    ],
)
def test_nothing_is_public_that_is_not_promised(face: Any, owner: str) -> None:
    said = NOTIFICATIONS_PROMISED if face in NOTIFYING else PROMISED
    promised = {line.partition("(")[0] for line in said.strip().splitlines()}
    for name, member in inspect.getmembers(getattr(face, owner), callable):
        if not name.startswith("_"):
            assert {f"{owner}.{name}", member.__qualname__} & promised, name


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("owner", FIELDS)
def test_a_value_has_the_promised_fields(face: Any, owner: str) -> None:
    assert {field.name for field in fields(getattr(face, owner))} >= FIELDS[owner]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("owner", OPTIONS)
def test_a_promised_option_can_be_given(face: Any, owner: str) -> None:
    assert set(inspect.signature(getattr(face, owner)).parameters) >= OPTIONS[owner]


@pytest.fixture(scope="module")
def functions(database_server: SharedServer) -> Iterator[dict[str, set[str]]]:
    """The functions of a migrated database and their arguments, and its views and roles, which have none."""
    with database_server.database(database_server.template) as database, database.connect() as connection:
        found: dict[str, set[str]] = {}
        for name, arguments in connection.execute(SQL_NAMES):
            found[name] = set(arguments or ()) | found.get(name, set())
        yield found


SQL_NAMES = """
    select proname, proargnames from pg_proc where pronamespace = 'pgqueue'::regnamespace
    union all
    select relname, null from pg_class where relnamespace = 'pgqueue'::regnamespace and relkind = 'v'
    union all
    select rolname, null from pg_roles
"""


@pytest.mark.parametrize("promised", SQL_PROMISED.strip().splitlines())
def test_a_promised_sql_function_takes_its_arguments(promised: str, functions: dict[str, set[str]]) -> None:
    name, _, arguments = promised.rstrip(")").partition("(")
    assert functions[name] >= set(arguments.split(", "))


@pytest.mark.parametrize("name", SQL_VIEWS.split())
def test_a_promised_view_exists(name: str, functions: dict[str, set[str]]) -> None:
    assert name in functions


def has_command(words: str) -> bool:
    """Whether there is such a command, with all of these options."""
    found: Any = typer.main.get_command(app)
    for word in words.split():
        if word.startswith("--"):
            if not any(word in parameter.opts for parameter in found.params):
                return False
        elif word in getattr(found, "commands", ()):
            found = found.commands[word]
        else:
            return False
    return True


@pytest.mark.parametrize("command", COMMANDS.strip().splitlines())
def test_a_promised_command_exists(command: str) -> None:
    assert has_command(command)


@pytest.mark.parametrize("name", TESTING.split())
def test_a_promised_aid_for_tests_exists(name: str) -> None:
    assert hasattr(pgqueue.testing, name)


@pytest.mark.parametrize("face", FACES)
def test_the_other_promised_names_exist(face: Any) -> None:
    assert [mode.name for mode in face.ReceiveMode] == ["PEEK_LOCK", "RECEIVE_AND_DELETE"]
    assert [status.name for status in face.QueueStatus] == ["ACTIVE", "DISABLED", "SEND_DISABLED", "RECEIVE_DISABLED"]
    assert [state.name for state in face.ReceiveState] == [
        "RECEIVED", "COMPLETING", "COMPLETED", "ABANDONING", "ABANDONED", "FAULTED",
    ]  # fmt: skip
    assert isinstance(face.Queue.dead_letters, property)
    assert issubclass(face.DeadLetters, face.Queue)
    assert set(face.QueueSettings.__annotations__) == FIELDS["QueueProperties"] - {"name", "paused_at"}
    assert [sub_queue.name for sub_queue in face.SubQueue] == ["DEAD_LETTER"]
    assert isinstance(face.ReceivedMessage.state, property)


@pytest.mark.parametrize("face", NOTIFYING)
def test_the_other_promised_names_of_notifications_exist(face: Any) -> None:
    assert [receipt.name for receipt in face.ReceiptStatus] == [
        "OK", "FAIL", "ABORT", "FINISHED", "NOT_PROCESSED", "PENDING",
    ]  # fmt: skip
    promised = {
        "created_at", "expires_at", "complete", "is_complete", "is_ready_to_send", "timed_out", "state", "attempts",
    }  # fmt: skip
    shown = {name for name, _ in inspect.getmembers(face.QueueNotification) if not name.startswith("_")}
    assert shown == promised
    assert issubclass(face.QueueNotification, face.Notification)
    assert issubclass(face.QueuedTransmitter, face.Transmitter)
    assert list(inspect.signature(face.Recipient.receive).parameters) == ["self", "notification"]
    assert [field.name for field in fields(face.Processed)] == ["removed", "kept", "dead_lettered", "lost"]
    assert [field.name for field in fields(face.Pace)] == ["base", "factor", "longest"]
    options = list(inspect.signature(face.QueuedTransmitter).parameters)
    assert options == ["queue", "types", "source", "pace", "time_to_live"]


@pytest.mark.parametrize("name", ERRORS.split())
def test_a_promised_error_exists_in_both_faces(name: str) -> None:
    error = getattr(pgqueue.errors, name)
    assert issubclass(error, pgqueue.PGQueueError)
    assert pgqueue.aio.errors is pgqueue.errors
    assert {"is_transient", "sqlstate", "tracking_id"} <= set(dir(error)) | set(vars(pgqueue.PGQueueError("no")))
