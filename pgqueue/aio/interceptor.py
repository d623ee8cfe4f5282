"""Interceptors: code of an application around its sends, and around the handling of its messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from pgqueue.errors import InterceptorError, InvalidArgumentError
from pgqueue.flows import Flow
from pgqueue.model.arguments import shown
from pgqueue.model.calls import must_finish
from pgqueue.model.cipher import Cipher
from pgqueue.model.message import Message
from pgqueue.transports import adrive

Call = Callable[[Any], Awaitable[Any]]


class Interceptor:
    """Code around the sends of a client, and around the handling of its messages. Override any of its methods.

    ``QueueClient(source, interceptors=[first, second])`` calls the first around the second. A method
    calls ``call`` exactly once, with the message that it is given or, in a send, with another; or it raises. The
    outcome is that of ``call``: the method's return value is ignored, and it can replace an error, but not suppress it.
    See ``docs/interceptors.md``.
    """

    async def send(self, message: Message[Any], call: Callable[[Message[Any]], Awaitable[Any]]) -> Any:
        """Around a message that is sent. ``call`` returns its sequence number, or how many subscriptions got it.

        It returns None where that is not known yet: in a ``send_batch``, for a sender, and for a schedule.
        """
        return await call(message)

    async def send_batch(
        self, messages: list[Message[Any]], call: Callable[[list[Message[Any]]], Awaitable[Any]]
    ) -> Any:
        """Around messages that are sent together; by default :meth:`send` is called for each, and then ``call``.

        ``call`` takes as many messages as there are, and returns what :meth:`send` would return for each.
        """
        return await call([await _changed([self], message) for message in messages])

    async def handle(self, received: Any, call: Callable[[Any], Awaitable[Any]]) -> Any:
        """Around each run of a handler, of the work of ``process``, or of the recipients of a notification.

        ``call`` takes this message and no other. An error of this method counts as a failure of the handler. If the
        handler takes a transaction, that is open.
        """
        return await call(received)


class Interceptors:
    """The interceptors of a client, in order."""

    def __init__(self, interceptors: Sequence[Interceptor | Cipher]) -> None:
        if not isinstance(interceptors, Sequence):
            raise InvalidArgumentError(f"interceptors must be a list of them, not {shown(interceptors)}")
        ciphers = [each for each in interceptors if isinstance(each, Cipher)]
        if len(ciphers) > 1:
            raise InvalidArgumentError("bodies are encrypted once: give one EncryptedBodies, with all keys")
        self.cipher = ciphers[0] if ciphers else None
        self._interceptors = tuple(each for each in interceptors if not isinstance(each, Cipher))
        for each in self._interceptors:
            if not isinstance(each, Interceptor):
                raise InvalidArgumentError(f"an interceptor must be a {_title(Interceptor)}, not {shown(each)}")
            for name in ("send", "send_batch", "handle"):
                must_finish(getattr(each, name), "the interceptor's", asynchronous=True)

    async def around(self, name: str, given: Any, run: Callable[[Any], Flow[Any]]) -> Any:
        """Run a flow within a method of all interceptors."""

        async def last(given: Any) -> Any:
            return await adrive(run(given))

        return await _within(self._interceptors, name, given, last)

    async def changed(self, message: Message[Any]) -> Message[Any]:
        """The message that ``send`` of all interceptors passes on, without storing it."""
        return await _changed(self._interceptors, message)


async def _changed(interceptors: Sequence[Interceptor], message: Message[Any]) -> Message[Any]:
    noted: list[Message[Any]] = []

    async def note(message: Message[Any]) -> None:
        noted.append(message)

    await _within(interceptors, "send", message, note)
    return noted[0]


async def _within(interceptors: Sequence[Interceptor], name: str, given: Any, call: Call) -> Any:
    for each in reversed(interceptors):
        call = partial(_intercept, each, name, call)
    return await call(given)


async def _intercept(interceptor: Interceptor, name: str, call: Call, given: Any) -> Any:
    passing = _Passing(f"{_title(type(interceptor))}.{name}()", call, given, is_fixed=name == "handle")
    try:
        # this face only: it may be a plain function that returns what it called
        result = getattr(interceptor, name)(given, passing)
        if hasattr(result, "__await__"):
            await result
        # end
        return passing.outcome()
    finally:
        passing.end()


class _Passing:
    """The call by which an interceptor passes on, once, before its method ends."""

    def __init__(self, title: str, call: Call, given: Any, *, is_fixed: bool) -> None:
        self._title = title
        self._call: Call | None = call
        self._given = given if is_fixed else None
        self._count = len(given) if isinstance(given, list) else None
        self._is_once = True
        self._results: list[Any] = []
        self._error: BaseException | None = None

    async def __call__(self, given: Any) -> Any:
        call, self._call = self._call, None
        if call is None:
            self._is_once = False
            raise InterceptorError(f"{self._title} has called twice, or too late: it must pass on exactly once")
        try:
            self._check(given)
            self._results.append(await call(given))
        except BaseException as error:
            self._error = error
            raise
        return self._results[0]

    def _check(self, given: Any) -> None:
        if self._count is not None:
            passed = len(given) if isinstance(given, list | tuple) else type(given).__name__
            if passed != self._count:
                raise InterceptorError(f"{self._title} was given {self._count} messages, and passes on {passed}")
        elif self._given is not None and given is not self._given:  # which would not be settled
            raise InterceptorError(f"{self._title} passes on another message than it was given")

    def outcome(self) -> Any:
        """The outcome of the one call."""
        if self._error is not None:
            raise self._error
        if not self._is_once or not self._results:
            raise InterceptorError(f"{self._title} must pass on exactly once, and wait for that call; or raise")
        return self._results[0]

    def end(self) -> None:
        """Refuse a call that comes later."""
        self._call = None


def _title(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
