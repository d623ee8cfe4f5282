"""The synchronous and the asynchronous face: the same names and the same signatures."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import pgqueue
import pgqueue.aio

TWINS = [
    "AutoLockRenewer", "DeadLetters", "PendingSend", "Queue", "QueueClient", "ReceivedMessage", "Receiver", "Sender",
    "Worker",
]  # fmt: skip

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
    "health", "_begin", "_where",
}  # fmt: skip


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
    for name in TWINS:
        ours, theirs = members(getattr(pgqueue, name)), members(getattr(pgqueue.aio, name))
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


def test_both_faces_export_the_same_names() -> None:
    assert pgqueue.__all__ == pgqueue.aio.__all__


def test_what_is_not_a_twin_is_the_very_same() -> None:
    twins = {*TWINS, "process"}
    for name in pgqueue.__all__:
        assert (getattr(pgqueue, name) is getattr(pgqueue.aio, name)) == (name not in twins), name


@pytest.mark.parametrize("name", TWINS)
def test_twins_have_the_same_members(name: str) -> None:
    assert members(getattr(pgqueue, name)).keys() == members(getattr(pgqueue.aio, name)).keys()


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
        for owner in TWINS
        for name, member in members(getattr(pgqueue, owner)).items()
        if not name.startswith("_") and not isinstance(member, property)
        for parameter in list(inspect.signature(function(member)).parameters.values())[1:]
        if parameter.kind is not parameter.KEYWORD_ONLY and parameter.default is not parameter.empty
    }
    assert placed == {
        "QueueClient.embedded(directory)",
        "ReceivedMessage.dead_letter(description)",
        "ReceivedMessage.transaction(source)",
    }
