"""Functions whose calls are messages: which parameters come from the body, and which from the worker."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from datetime import timedelta
from functools import partial
from inspect import Parameter
from string import Formatter
from typing import Any

from pgqueue.errors import InvalidArgumentError, MessageNotSerializableError
from pgqueue.model.body_type import WITHHELD, BodyType, is_of_pydantic, mentions
from pgqueue.model.calls import evaluated, is_coroutine_function, must_finish
from pgqueue.model.encoding import encode_body
from pgqueue.model.handler import KINDS
from pgqueue.model.json_text import decode
from pgqueue.model.message import Message, PeekedMessage
from pgqueue.model.schedule import CatchUp, Schedule, sends

#: Parameters that get the message, or the transaction, if they are not annotated with something else.
MESSAGE, TRANSACTION = "message", "tx"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Periodic:
    """The schedule that a task is declared with."""

    name: str
    queue: str
    message: Message[Any]
    cron: str | None
    every: timedelta | None
    timezone: str
    catch_up: CatchUp | str
    jitter: timedelta | None

    def is_as(self, schedule: Schedule, body_type: BodyType | None) -> bool:
        """Whether a schedule is as declared."""
        same = ("queue", "cron", "every", "timezone", "catch_up", "jitter")
        return sends(schedule, self.message, body_type) and all(
            getattr(self, name) == getattr(schedule, name) for name in same
        )


class Arguments:
    """The parameters of a function: arguments from the body of a message, perhaps the message and the transaction.

    ``kind`` is the type of the bodies: a dataclass, or a model of pydantic if an argument has one. So arguments are
    checked as typed bodies are.
    """

    def __init__(
        self, function: Callable[..., Any], reserved: Sequence[str] = (), *, asynchronous: bool = False
    ) -> None:
        must_finish(function, "the task", asynchronous=asynchronous, remedy="use pgqueue.aio.Tasks, which awaits it")
        self._function = function
        signature = inspect.signature(function)
        annotations = {name: _annotation(each, function) for name, each in signature.parameters.items()}
        self.message = _only(name for name, kind in annotations.items() if _is_message(name, kind))
        self.transaction = _only(name for name, kind in annotations.items() if _is_transaction(name, kind))
        self.annotations = annotations
        own = [each for each in signature.parameters.values() if each.name not in (self.message, self.transaction)]
        for each in own:
            _check(each, function, reserved)
        self._signature = signature.replace(parameters=own)
        self.kind = _kind(function, {each.name: (annotations[each.name], each.default) for each in own})
        #: The type of results; None if they are plain JSON.
        self.returns = _result_type(function)
        self.is_coroutine = is_coroutine_function(function)
        #: Whether bodies are encrypted, so that errors must not quote them.
        self.is_secret = False
        if asynchronous and self.transaction is not None and not self.is_coroutine:
            raise InvalidArgumentError(
                f"{function.__name__} takes a transaction, so it must be a coroutine function here"
            )

    @property
    def are_optional(self) -> bool:
        """Whether the function can be called without arguments."""
        return all(each.default is not Parameter.empty for each in self._signature.parameters.values())

    def body(self, /, *args: Any, **kwargs: Any) -> Any:
        """The body of a message that stands for a call.

        Raises:
            InvalidArgumentError: the function takes other arguments.
            MessageNotSerializableError: a model of pydantic refuses them.
        """
        try:
            given = self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise InvalidArgumentError(
                f"{self._function.__name__}({', '.join(self._signature.parameters)}): {error}"
            ) from None
        try:
            return self.kind(**given)
        except ValueError as error:
            if not self.is_secret:
                raise MessageNotSerializableError(f"{self._function.__name__}: {error}") from error
        raise MessageNotSerializableError(f"an argument of {self._function.__name__} is not of its type{WITHHELD}")

    def as_json(self, body: Any) -> Any:
        """The body of a message for who does not know its type.

        Raises:
            MessageNotSerializableError: an argument is not of its type.
        """
        try:
            text, _ = encode_body(body, BodyType(self.kind))
            return decode(str(text))
        except MessageNotSerializableError:
            if not self.is_secret:
                raise
        raise MessageNotSerializableError(f"an argument of {self._function.__name__} is not of its type{WITHHELD}")

    def result(self, value: Any) -> Any:
        """Return a result of the function as JSON that can be made into its type.

        Raises:
            MessageNotSerializableError: it is of another type.
        """
        if self.returns is None:
            return value
        text, _ = encode_body(value, self.returns, field=f"the result of {self._function.__name__}")
        return decode(text or "")

    def check_unique_key(self, template: str, task: str) -> None:
        """Refuse a template of unique keys that names something else than arguments."""
        try:
            fields = [field for _, field, _, _ in Formatter().parse(template) if field is not None]
        except ValueError as error:
            raise InvalidArgumentError(f"the unique_key of {task} is no text of its arguments: {error}") from None
        for field in fields:
            if re.split(r"[.[]", field)[0] not in self._signature.parameters:
                raise InvalidArgumentError(f"the unique_key of {task} is no text of its arguments: {{{field}}} is none")

    def values(self, body: Any) -> dict[str, Any]:
        """The arguments in a body."""
        return {name: getattr(body, name) for name in self._signature.parameters}

    def call(self, message: Any, transaction: object = None) -> Any:
        """Call the function with the arguments of its message."""
        injected = {self.message: message, self.transaction: transaction}
        return self._function(
            **self.values(message.body), **{name: value for name, value in injected.items() if name is not None}
        )

    def sign(self, handler: Callable[..., Any], message_type: Any) -> Callable[..., Any]:
        """Give a handler the signature that corresponds to the function, for messages of this class."""
        message = Parameter(MESSAGE, Parameter.POSITIONAL_ONLY, annotation=message_type[self.kind])
        kind = self.annotations[self.transaction] if self.transaction else None
        transaction = Parameter(TRANSACTION, Parameter.POSITIONAL_ONLY, annotation=kind or Parameter.empty)
        signature = inspect.Signature([message, transaction] if self.transaction else [message])
        handler.__signature__ = signature  # type: ignore[attr-defined]
        handler.__module__, handler.__qualname__ = self._function.__module__, self._function.__qualname__
        return handler


def _result_type(function: Callable[..., Any]) -> BodyType | None:
    kind = inspect.signature(function).return_annotation
    try:
        kind = evaluated(kind, function)
        return None if kind in (type(None), Parameter.empty) else BodyType(kind)
    except Exception:  # noqa: BLE001 - the results of such a function are plain JSON
        return None


def _annotation(parameter: Parameter, function: Callable[..., Any]) -> Any:
    """The annotation of a parameter; None for the message and the transaction, if it does not show what they are."""
    is_injected = parameter.name in (MESSAGE, TRANSACTION)
    kind = Any if parameter.annotation is Parameter.empty else parameter.annotation
    try:
        kind = evaluated(kind, function)
        return None if is_injected and kind is Any else kind
    except Exception as error:
        if is_injected:
            return None
        raise InvalidArgumentError(
            f"the annotation {kind} of {function.__name__} cannot be read at run time: {error}. Import its names"
            " outside of `if TYPE_CHECKING`, and define its types in a module"
        ) from error


def _is_message(name: str, kind: Any) -> bool:
    if kind is None:
        return name == MESSAGE
    origin = _class_of(kind)
    return isinstance(origin, type) and issubclass(origin, PeekedMessage)


def _is_transaction(name: str, kind: Any) -> bool:
    if kind is None:
        return name == TRANSACTION
    origin = _class_of(kind)
    return isinstance(origin, type) and origin.__module__.partition(".")[0] in KINDS


def _class_of(kind: Any) -> Any:
    return typing.get_origin(kind) or kind


def _only(names: typing.Iterable[str]) -> str | None:
    found = list(names)
    if len(found) > 1:
        raise InvalidArgumentError(f"a task takes one message and one transaction, not both {' and '.join(found)}")
    return found[0] if found else None


def _check(parameter: Parameter, function: Callable[..., Any], reserved: Sequence[str]) -> None:
    if parameter.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
        raise InvalidArgumentError(
            f"{function.__name__} takes {parameter.name}, which is {parameter.kind.description}: arguments of a task"
            " have names"
        )
    if parameter.name in reserved:
        raise InvalidArgumentError(
            f"{function.__name__} takes {parameter.name}, which is an option of send: give the argument another name"
        )


def _kind(function: Callable[..., Any], arguments: Mapping[str, tuple[Any, Any]]) -> Any:
    made = dataclasses.make_dataclass(
        function.__name__,
        [
            (each, kind) if default is Parameter.empty else (each, kind, _default(default))
            for each, (kind, default) in arguments.items()
        ],
        namespace={"__module__": function.__module__},
        kw_only=True,
    )
    if any(mentions(kind, is_of_pydantic) for kind, _ in arguments.values()):
        from pydantic.dataclasses import dataclass

        return dataclass(made)
    return made


def _default(value: Any) -> Any:
    return dataclasses.field(default_factory=partial(deepcopy, value))


#: The fields of a message that the sender of a task may give beside its arguments.
FIELDS = (*(each.name for each in dataclasses.fields(Message) if each.name not in ("body", "subject")), "group_id")
