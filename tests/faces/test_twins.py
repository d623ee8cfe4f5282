"""Both faces have the same names, and what each writes by hand has the same signatures."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import pgqueue
import pgqueue.aio.notifications
import pgqueue.notifications
from docs.generate.faces import translated

MODULES = [(pgqueue, pgqueue.aio), (pgqueue.notifications, pgqueue.aio.notifications)]

#: Written in both faces. The rest of the synchronous one is written from the other.
BY_HAND = ["AutoLockRenewer", "PendingSend", "Sender"]

#: These are entered with `async with`, or do not wait.
NOT_AWAITED = {"__init__", "fault", "register", "deregister"}


def members(owner: type) -> dict[str, Any]:
    """The methods and properties that a class defines itself, by their names in the synchronous face."""
    return {
        translated(name): value
        for name, value in vars(owner).items()
        if inspect.isfunction(value) or isinstance(value, property | classmethod)
    }


def pairs() -> Iterator[Any]:
    for name in BY_HAND:
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
        (each.name, each.kind, each.default, translated(str(each.annotation))) for each in signature.parameters.values()
    ]
    return parameters, translated(str(signature.return_annotation))


@pytest.mark.parametrize(("ours", "theirs"), MODULES)
def test_both_faces_export_the_same_names(ours: Any, theirs: Any) -> None:
    assert ours.__all__ == theirs.__all__


@pytest.mark.parametrize(("ours", "theirs"), MODULES)
def test_each_face_has_its_own_classes_and_shares_the_rest(ours: Any, theirs: Any) -> None:
    for name in ours.__all__:
        face = getattr(theirs, name)
        is_of_the_face = (getattr(face, "__module__", None) or "").startswith("pgqueue.aio")
        assert (getattr(ours, name) is face) != is_of_the_face, name


@pytest.mark.parametrize("name", BY_HAND)
def test_hand_written_classes_have_the_same_members(name: str) -> None:
    assert members(getattr(pgqueue, name)).keys() == members(getattr(pgqueue.aio, name)).keys()


@pytest.mark.parametrize(("ours", "theirs"), list(pairs()))
def test_hand_written_methods_have_the_same_signature(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs)
    assert shape(ours) == shape(theirs)
    assert bool(inspect.getdoc(function(ours))) == bool(inspect.getdoc(function(theirs)))


@pytest.mark.parametrize(("ours", "theirs"), list(pairs()))
def test_calls_that_may_wait_are_awaited(ours: Any, theirs: Any) -> None:
    assert not inspect.iscoroutinefunction(function(ours))
    if not isinstance(ours, property):
        assert inspect.iscoroutinefunction(function(theirs)) == (function(ours).__name__ not in NOT_AWAITED)


def test_options_are_named_never_placed() -> None:
    """Only what a verb acts on may be given by place, and the one reason that a dead letter must have."""
    classes = [getattr(module, name) for module, _ in MODULES for name in module.__all__]
    placed = {
        f"{owner.__name__}.{name}({parameter.name})"
        for owner in classes
        if inspect.isclass(owner) and owner not in (getattr(theirs, owner.__name__, None) for _, theirs in MODULES)
        for name, member in members(owner).items()
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
