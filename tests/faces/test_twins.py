"""The synchronous and the asynchronous face: the same names and the same signatures."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import pgqueue
import pgqueue.aio.notifications
import pgqueue.aio.testing
import pgqueue.notifications
import pgqueue.testing

MODULES = [(pgqueue, pgqueue.aio), (pgqueue.notifications, pgqueue.aio.notifications)]

TWINS = {
    pgqueue: [
        "AutoLockRenewer", "DeadLetters", "PendingSend", "Queue", "QueueClient", "ReceivedMessage", "Receiver",
        "Sender", "Session", "Topic", "Worker",
    ],
    pgqueue.notifications: ["Bridge", "QueuedTransmitter", "Transmitter"],
}  # fmt: skip

# What is said differently where one awaits.
SPOKEN = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "AsyncIterator": "Iterator",
    "Awaitable[Sequence[PeekedMessage]]": "Sequence[PeekedMessage]",
}

# What asks nothing of the database, or is entered with `async with` and `async for`, is not awaited.
NOT_AWAITED = {
    "__init__", "__repr__", "__iter__", "queue", "receiver", "sender", "fault", "transaction", "register", "stop",
    "health", "subscription", "topic", "_begin", "_make", "_where", "deregister",
}  # fmt: skip


def twins() -> Iterator[tuple[str, Any, Any]]:
    """Each class that is written once for each face."""
    for ours, theirs in MODULES:
        yield from ((name, getattr(ours, name), getattr(theirs, name)) for name in TWINS[ours])


def members(owner: type) -> dict[str, Any]:
    """What a class defines itself, by its name in the synchronous face."""
    return {
        SPOKEN.get(name, name): value
        for name, value in vars(owner).items()
        if inspect.isfunction(value) or isinstance(value, property | classmethod)
    }


def pairs() -> Iterator[Any]:
    """Each method, property or function of the one face with its twin."""
    yield pytest.param(pgqueue.process, pgqueue.aio.process, id="process")
    yield pytest.param(pgqueue.testing.drain, pgqueue.aio.testing.drain, id="drain")
    for name, one, other in twins():
        ours, theirs = members(one), members(other)
        for member in sorted(ours.keys() & theirs.keys()):
            yield pytest.param(ours[member], theirs[member], id=f"{name}.{member}")


def function(member: Any) -> Any:
    match member:
        case property():
            return member.fget
        case classmethod():
            return member.__func__
    return inspect.unwrap(member)


def shape(member: Any) -> tuple[list[tuple[str, Any, Any, str]], str]:
    """Names, kinds, defaults and annotations of the parameters, and the annotation of what is returned."""
    signature = inspect.signature(function(member))
    parameters = [
        (each.name, each.kind, each.default, spoken(each.annotation)) for each in signature.parameters.values()
    ]
    return parameters, spoken(signature.return_annotation)


def spoken(annotation: object) -> str:
    said = str(annotation)
    for theirs, ours in SPOKEN.items():
        said = re.sub(rf"(?<!\w){re.escape(theirs)}", ours, said)
    return said


@pytest.mark.parametrize(("ours", "theirs"), MODULES)
def test_both_faces_export_the_same_names(ours: Any, theirs: Any) -> None:
    assert ours.__all__ == theirs.__all__


@pytest.mark.parametrize(("ours", "theirs"), MODULES)
def test_what_is_not_a_twin_is_the_very_same(ours: Any, theirs: Any) -> None:
    twins = {*TWINS[ours], "process"}
    for name in ours.__all__:
        assert (getattr(ours, name) is getattr(theirs, name)) == (name not in twins), name


@pytest.mark.parametrize(("ours", "theirs"), [pytest.param(*pair, id=name) for name, *pair in twins()])
def test_twins_have_the_same_members(ours: type, theirs: type) -> None:
    assert members(ours).keys() == members(theirs).keys()


@pytest.mark.parametrize(("ours", "theirs"), list(pairs()))
def test_twins_have_the_same_signature(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs)
    assert shape(ours) == shape(theirs)


@pytest.mark.parametrize(("ours", "theirs"), list(pairs()))
def test_what_may_wait_is_awaited(ours: Any, theirs: Any) -> None:
    assert not inspect.iscoroutinefunction(function(ours))
    if not isinstance(ours, property):
        name = function(ours).__name__
        assert inspect.iscoroutinefunction(function(theirs)) == (name not in NOT_AWAITED)


@pytest.mark.parametrize(("ours", "theirs"), list(pairs()))
def test_twins_are_documented_alike(ours: Any, theirs: Any) -> None:
    assert bool(inspect.getdoc(function(ours))) == bool(inspect.getdoc(function(theirs)))


def test_options_are_named_never_placed() -> None:
    """Only what a verb acts on may be given by place, and the one reason that a dead letter must have."""
    placed = {
        f"{owner}.{name}({parameter.name})"
        for owner, ours, _ in twins()
        for name, member in members(ours).items()
        if not name.startswith("_") and not isinstance(member, property)
        for parameter in list(inspect.signature(function(member)).parameters.values())[1:]
        if parameter.kind is not parameter.KEYWORD_ONLY and parameter.default is not parameter.empty
    }
    assert placed == {
        "Queue.accept_session(session_id)",
        "QueueClient.embedded(directory)",
        "ReceivedMessage.dead_letter(description)",
        "ReceivedMessage.transaction(source)",
    }
