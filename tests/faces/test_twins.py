"""Both faces have the same names, and options are named in both."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import pgqueue
import pgqueue.aio.notifications
import pgqueue.notifications
from docs.generate.faces import translated

MODULES = [(pgqueue, pgqueue.aio), (pgqueue.notifications, pgqueue.aio.notifications)]


def members(owner: type) -> dict[str, Any]:
    """The methods and properties that a class defines itself, by their names in the synchronous face."""
    return {
        translated(name): value
        for name, value in vars(owner).items()
        if inspect.isfunction(value) or isinstance(value, property | classmethod)
    }


def function(member: Any) -> Any:
    match member:
        case property():
            return member.fget
        case classmethod():
            return member.__func__
    return inspect.unwrap(member)


@pytest.mark.parametrize(("ours", "theirs"), MODULES)
def test_both_faces_export_the_same_names(ours: Any, theirs: Any) -> None:
    assert ours.__all__ == theirs.__all__


@pytest.mark.parametrize(("ours", "theirs"), MODULES)
def test_each_face_has_its_own_classes_and_shares_the_rest(ours: Any, theirs: Any) -> None:
    for name in ours.__all__:
        face = getattr(theirs, name)
        is_of_the_face = (getattr(face, "__module__", None) or "").startswith("pgqueue.aio")
        assert (getattr(ours, name) is face) != is_of_the_face, name


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
        "Batch.wait(timeout)",
        "Queue.accept_session(session_id)",
        "QueueClient.embedded(directory)",
        "ReceivedMessage.dead_letter(description)",
        "ReceivedMessage.transaction(source)",
    }
