"""help() has an answer for every public name, and for every option."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Any

import pytest

import pgqueue
import pgqueue.aio.notifications
import pgqueue.notifications

FACES = [pgqueue, pgqueue.aio, pgqueue.notifications, pgqueue.aio.notifications]


#: Data, with a comment in the code and a table on a page.
TABLES = ["AGGREGATION", "REMOVAL"]


def exported() -> Iterator[tuple[str, Any]]:
    for face in FACES:
        for name in face.__all__:
            if name not in TABLES:
                yield f"{face.__name__}.{name}", getattr(face, name)


def classes() -> Iterator[tuple[str, type]]:
    return ((name, value) for name, value in exported() if inspect.isclass(value))


def callables() -> Iterator[tuple[str, Any, str]]:
    """Every public function and method, with the docstrings of its class and of those above."""
    for name, value in exported():
        if inspect.isfunction(value):
            yield name, value, ""
    for name, owner in classes():
        for member, value in inspect.getmembers(owner, callable):
            if not member.startswith("_") and (getattr(value, "__module__", None) or "").startswith("pgqueue"):
                above = (each for each in owner.__mro__ if each.__module__.startswith("pgqueue"))
                yield f"{name}.{member}", value, " ".join(filter(None, map(inspect.getdoc, above)))


def shown(parts: Iterator[tuple[Any, ...]]) -> list[Any]:
    return [pytest.param(*part[1:], id=part[0]) for part in parts]


def mentions(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


@pytest.mark.parametrize("value", shown(exported()))
def test_every_exported_name_has_a_docstring_of_its_own(value: Any) -> None:
    doc = value.__doc__ if isinstance(value, ModuleType) else vars(value).get("__doc__", value.__doc__)
    assert doc
    assert not doc.startswith(f"{getattr(value, '__name__', '')}("), "that is the docstring dataclasses make up"


@pytest.mark.parametrize(("function", "_class_says"), shown(callables()))
def test_every_public_function_and_method_has_a_docstring(function: Any, _class_says: str) -> None:
    assert inspect.getdoc(function)


@pytest.mark.parametrize("owner", shown(classes()))
def test_every_public_property_has_a_docstring(owner: type) -> None:
    for name, member in vars(owner).items():
        if isinstance(member, property) and not name.startswith("_"):
            assert inspect.getdoc(member), name


@pytest.mark.parametrize(("function", "class_says"), shown(callables()))
def test_every_option_is_explained(function: Any, class_says: str) -> None:
    said = f"{inspect.getdoc(function)} {class_says} {inspect.getdoc(pgqueue.QueueProperties)}"
    for option in inspect.signature(function).parameters.values():
        if option.kind is option.KEYWORD_ONLY:
            assert mentions(said, option.name), f"{option.name} is not explained"


@pytest.mark.parametrize(("function", "class_says"), shown(callables()))
def test_every_error_that_is_promised_exists(function: Any, class_says: str) -> None:
    for error in re.findall(r"\b[A-Z]\w+Error\b", f"{inspect.getdoc(function)} {class_says}"):
        assert hasattr(pgqueue.errors, error), f"{error} is promised, and is no error of ours"


def test_every_field_of_a_value_has_a_type() -> None:
    for name, owner in classes():
        if is_dataclass(owner):
            for field in fields(owner):
                assert field.type, f"{name}.{field.name}"
