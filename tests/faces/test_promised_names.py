"""The public surface, written out by hand: who renames something here breaks somebody's program."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

import pytest

import pgqueue
import pgqueue.aio.notifications
import pgqueue.notifications

MODULES = (pgqueue, pgqueue.aio)
NOTIFYING = (pgqueue.notifications, pgqueue.aio.notifications)
FACES = [pytest.param(face, id=face.__name__) for face in MODULES]

PROMISED = """
QueueClient.embedded(directory=)
QueueClient.close()
QueueClient.migrate()
QueueClient.create_queue(name, exist_ok=, **settings)
QueueClient.get_queue(name)
QueueClient.get_queue_runtime_properties(name)
QueueClient.update_queue(name, **settings)
QueueClient.delete_queue(name)
QueueClient.purge_queue(name)
QueueClient.list_queues()
QueueClient.sweep(dry_run=)
QueueClient.queue(name)
Queue.send(message, transaction=)
Queue.send_batch(messages, transaction=)
Queue.schedule(message, at=, transaction=)
Queue.cancel_scheduled(sequence_numbers, transaction=)
Queue.sender(max_in_flight=, retry=)
Queue.receive(max_messages=, wait=, lock_duration=)
Queue.receive_deferred(sequence_numbers, lock_duration=)
Queue.receive_and_delete(max_messages=, wait=, transaction=)
Queue.receiver(receive_mode=, prefetch=, sub_queue=)
Queue.peek(max_messages=, from_sequence_number=)
Queue.complete_batch(received, transaction=)
Queue.abandon_batch(received, delay=, properties=, transaction=)
Queue.dead_letter_batch(received, reason=, description=, transaction=)
Queue.defer_batch(received, properties=, transaction=)
Queue.renew_lock_batch(received, lock_duration=)
Queue.history(since=, outcome=, message_id=, sequence_number=, limit=)
DeadLetters.purge()
DeadLetters.resubmit(sequence_numbers=, reason=, older_than=, limit=)
ReceivedMessage.complete(transaction=)
ReceivedMessage.abandon(delay=, properties=, transaction=)
ReceivedMessage.dead_letter(reason, description=, transaction=)
ReceivedMessage.postpone(delay, body=, transaction=)
ReceivedMessage.defer(properties=, transaction=)
ReceivedMessage.record_effect(effect, result=, keep=, transaction=)
ReceivedMessage.recorded_effects()
ReceivedMessage.renew_lock(lock_duration=)
ReceivedMessage.fault()
ReceivedMessage.resolve()
ReceivedMessage.transaction(source=)
Receiver.close()
Sender.send(message)
Sender.close()
PendingSend.result(timeout=)
PendingSend.done()
ReceiveContext.on_complete(callback)
ReceiveContext.on_abandon(callback)
ReceiveContext.on_fault(callback)
ReceiveContext.fault()
"""

NOTIFICATIONS_PROMISED = """
Transmitter.register(recipient)
Transmitter.deregister(recipient)
Transmitter.notify_all(notification, transaction=)
QueuedTransmitter.notify_all(notification, transaction=)
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
        "priority", "time_to_live", "scheduled_enqueue_time",
    },
    "ReceivedMessage": {
        "body", "message_id", "application_properties", "content_type", "correlation_id", "subject", "reply_to",
        "priority", "queue", "sequence_number", "delivery_count", "enqueued_time", "lock_token", "locked_until",
        "expires_at", "dead_letter_reason", "dead_letter_error_description", "dead_letter_source", "context",
    },
    "QueueProperties": {
        "name", "lock_duration", "max_delivery_count", "max_message_size", "status", "user_metadata",
        "default_message_time_to_live", "dead_lettering_on_message_expiration", "requires_duplicate_detection",
        "duplicate_detection_history_time_window", "max_queue_length", "retain_history",
    },
    "SettlementResult": {"sequence_number", "error", "locked_until"},
    "SweepReport": {"expired", "dead_lettered", "returned", "activated", "forgotten", "reclaimed_days"},
}  # fmt: skip

ERRORS = """
LockLostError MessageAlreadySettledError MessageNotFoundError MessageSizeExceededError MessageNotSerializableError
QueueNotFoundError QueueAlreadyExistsError QueueDisabledError QueueFullError InvalidStateError FaultedError
TransactionRequiredError OperationTimeoutError ConnectionLostError AccessDeniedError SchemaVersionError SendError
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


OWNERS = ["Queue", "QueueClient", "DeadLetters", "ReceivedMessage", "Receiver", "Sender", "PendingSend"]


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
def test_what_else_is_promised_exists(face: Any) -> None:
    assert [mode.name for mode in face.ReceiveMode] == ["PEEK_LOCK", "RECEIVE_AND_DELETE"]
    assert [status.name for status in face.QueueStatus] == ["ACTIVE", "DISABLED", "SEND_DISABLED", "RECEIVE_DISABLED"]
    assert [state.name for state in face.ReceiveState] == [
        "RECEIVED", "COMPLETING", "COMPLETED", "ABANDONING", "ABANDONED", "FAULTED",
    ]  # fmt: skip
    assert isinstance(face.Queue.dead_letters, property)
    assert issubclass(face.DeadLetters, face.Queue)
    assert set(face.QueueSettings.__annotations__) == FIELDS["QueueProperties"] - {"name"}
    assert [sub_queue.name for sub_queue in face.SubQueue] == ["DEAD_LETTER"]
    assert isinstance(face.ReceivedMessage.state, property)
    assert list(inspect.signature(face.process).parameters) == ["received", "work", "source", "retry"]
    assert list(inspect.signature(face.DeadLetter).parameters) == ["reason", "description"]


@pytest.mark.parametrize("face", NOTIFYING)
def test_what_else_is_promised_of_notifications_exists(face: Any) -> None:
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
    assert issubclass(getattr(pgqueue.errors, name), pgqueue.PGQueueError)
    assert pgqueue.aio.errors is pgqueue.errors
