"""Values of Python's types, made of what JSON holds: checked against type hints, dataclasses first of all."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any, Literal, Union
from uuid import UUID

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.arguments import shown

Reader = Callable[[Any], Any]


class InvalidValueError(ValueError):
    """A value is not of the type that is wanted; ``path`` leads to it from the body.

    ``rule`` is the complaint without the value, and ``without_value`` the whole text without it.
    """

    def __init__(self, complaint: str, path: Sequence[str] = (), *, rule: str | None = None) -> None:
        super().__init__(_at(path, complaint))
        self.complaint = complaint
        self.path = path
        self.rule = complaint if rule is None else rule

    @property
    def without_value(self) -> str:
        """The path and the rule."""
        return _at(self.path, self.rule)

    def within(self, place: str) -> InvalidValueError:
        """The same, seen from the value that contains it."""
        return InvalidValueError(self.complaint, [place, *self.path], rule=self.rule)


def _at(path: Sequence[str], complaint: str) -> str:
    return f"{'.'.join(path)}: {complaint}" if path else complaint


def _unfit(value: Any, wanted: str) -> InvalidValueError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:60]}…"
    return InvalidValueError(f"it is {shown}, not {wanted}", rule=f"it is not {wanted}")


def reader(kind: Any) -> Reader:
    """How to make a value of a type from what JSON holds; it raises :class:`InvalidValueError`.

    Raises:
        InvalidArgumentError: JSON is not made into such values here.
    """
    return _reader(kind, {})


def _reader(kind: Any, known: dict[Any, Reader]) -> Reader:
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        if kind not in known:
            known[kind] = lambda value: made(value)  # noqa: PLW0108 - a dataclass may contain itself
            made = _dataclass_reader(kind, known)
        return known[kind]
    if isinstance(kind, Hashable) and kind in SIMPLE:
        return SIMPLE[kind]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return partial(_member, kind, f"one of {', '.join(repr(each.value) for each in kind)}")
    return _generic_reader(kind, known)


def _generic_reader(kind: Any, known: dict[Any, Reader]) -> Reader:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return partial(_any_of, [(_reader(each, known), _names_of(each)) for each in arguments])
    if origin is Literal:
        return partial(_one_of, arguments)
    if origin in LISTS:
        (of, *rest) = arguments
        if origin is not tuple or rest == [...]:
            return partial(_list, LISTS[origin], _reader(of, known))
    if origin in (dict, Mapping) and arguments[0] in (str, Any):
        return partial(_dict, _reader(arguments[1], known))
    raise InvalidArgumentError(
        f"JSON is not made into {name_of(kind)} here: take another type in the dataclass, or a model of pydantic"
    )


def _dataclass_reader(kind: Any, known: dict[Any, Reader]) -> Reader:
    hints = _hints(kind)
    for name, hint in hints.items():
        if isinstance(hint, dataclasses.InitVar):
            raise InvalidArgumentError(
                f"{name_of(kind)} has the InitVar {name}, which is not read from JSON here: make it a field, or take a"
                " model of pydantic"
            )
    readers = {each.name: _reader(hints[each.name], known) for each in dataclasses.fields(kind) if each.init}
    required = [
        each.name
        for each in dataclasses.fields(kind)
        if each.init and each.default is each.default_factory is dataclasses.MISSING
    ]

    def read(value: Any) -> Any:
        """Fields that the dataclass does not have are ignored: a newer sender may have added them."""
        fields = _instance(dict, "an object", value)
        for name in required:
            if name not in fields:
                raise InvalidValueError("it is missing", [name])
        given = {name: _within(name, readers[name], fields[name]) for name in readers if name in fields}
        try:
            return kind(**given)
        except (TypeError, ValueError) as error:  # of its __post_init__
            raise InvalidValueError(str(error), rule=f"{name_of(kind)} refuses it") from error

    return read


def _hints(kind: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except NameError as error:
        raise InvalidArgumentError(
            f"the types of {name_of(kind)} cannot be read at run time: {error}. Import them outside of"
            " `if TYPE_CHECKING`, and define them in a module"
        ) from error


def _within(place: str, read: Reader, value: Any) -> Any:
    try:
        return read(value)
    except InvalidValueError as error:
        raise error.within(place) from None


def _instance(kinds: Any, wanted: str, value: Any) -> Any:
    if isinstance(value, kinds) and (kinds is bool or not isinstance(value, bool)):
        return value
    raise _unfit(value, wanted)


def _call(function: Callable[[Any], Any], wanted: str, value: Any) -> Any:
    try:
        return function(value)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        raise _unfit(value, wanted) from None


def _member(kind: type[Enum], wanted: str, value: Any) -> Enum:
    """Python takes True for 1, and JSON does not."""
    member: Enum = _call(kind, wanted, value)
    if member.value == value and type(member.value) is not type(value):
        raise _unfit(value, wanted)
    return member


def _parsed(function: Callable[[Any], Any], wanted: str, value: Any) -> Any:
    return _call(function, wanted, _instance(str, wanted, value))


def _decimal(value: Any) -> Decimal:
    decimal: Decimal = _call(Decimal, "a number", str(_instance((int, float, str), "a number", value)))
    if not decimal.is_finite():  # Python reads "Infinity" and "sNaN", and a comparison with the latter raises
        raise _unfit(value, "a number")
    return decimal


def _float(value: Any) -> float:
    number: float = _call(float, "a number that a float can hold", _instance((int, float), "a number", value))
    return number


def _null(value: Any) -> None:
    if value is not None:
        raise _unfit(value, "null")


def _names_of(kind: Any) -> frozenset[str] | None:
    """The fields of a dataclass; of no other type."""
    is_known = isinstance(kind, type) and dataclasses.is_dataclass(kind)
    return frozenset(each.name for each in dataclasses.fields(kind) if each.init) if is_known else None


def _any_of(kinds: Sequence[tuple[Reader, frozenset[str] | None]], value: Any) -> Any:
    """The first that fits; if that is a dataclass without some of the fields, rather a later one that has them all."""
    complaints: list[InvalidValueError] = []
    made: list[Any] = []
    for read, names in kinds:
        if made and not (names is not None and names.issuperset(value)):
            continue
        try:
            made.append(read(value))
        except InvalidValueError as error:
            complaints.append(error)
            continue
        if names is None or names.issuperset(value):
            return made[-1]
    if made:
        return made[0]
    raise InvalidValueError(
        ", and ".join(map(str, complaints)), rule=", and ".join(each.without_value for each in complaints)
    )


def _one_of(choices: Sequence[Any], value: Any) -> Any:
    for choice in choices:
        if choice == value and type(choice) is type(value):
            return value
    raise _unfit(value, f"one of {', '.join(map(repr, choices))}")


def _list(make: Callable[[Any], Any], read: Reader, value: Any) -> Any:
    items = _instance(list, "a list", value)
    made = [_within(str(place), read, item) for place, item in enumerate(items)]
    return _call(make, f"items of a {make.__name__}", made)


def _dict(read: Reader, value: Any) -> dict[str, Any]:
    return {key: _within(key, read, item) for key, item in _instance(dict, "an object", value).items()}


def name_of(kind: Any) -> str:
    """The name of a type, for people."""
    if isinstance(kind, type) and not typing.get_args(kind):
        return f"{kind.__module__}.{kind.__qualname__}"
    return shown(kind)


SIMPLE: dict[Any, Reader] = {
    Any: lambda value: value,
    object: lambda value: value,
    None: _null,
    type(None): _null,
    bool: partial(_instance, bool, "true or false"),
    int: partial(_instance, int, "a whole number"),
    float: _float,
    str: partial(_instance, str, "a text"),
    list: partial(_instance, list, "a list"),
    dict: partial(_instance, dict, "an object"),
    datetime: partial(_parsed, datetime.fromisoformat, "a time in ISO 8601"),
    date: partial(_parsed, date.fromisoformat, "a date in ISO 8601"),
    time: partial(_parsed, time.fromisoformat, "a time of day in ISO 8601"),
    UUID: partial(_parsed, UUID, "a UUID"),
    Decimal: _decimal,
}

LISTS: dict[Any, Callable[[Any], Any]] = {
    list: list, Sequence: list, tuple: tuple, set: set, frozenset: frozenset,
}  # fmt: skip
