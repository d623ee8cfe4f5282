"""Which handler works on a message: by its queue, and by its subject."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar

from pgqueue.errors import InvalidArgumentError, NoHandlerError
from pgqueue.model.arguments import shown
from pgqueue.model.handler import Handler
from pgqueue.model.message import PeekedMessage
from pgqueue.worker.policy import RetryPolicy

F = TypeVar("F", bound=Callable[[Any], object] | Callable[[Any, Any], object])

Function = Callable[..., Any]


class Routes:
    """The handlers of one queue by subject; the one under None takes every other message."""

    def __init__(self, queue: str, by_subject: Mapping[str | None, Handler]) -> None:
        self.queue = queue
        self._by_subject = by_subject
        self._rest = by_subject.get(None)
        self.handlers = list(by_subject.values())
        #: Whether some messages are handled in a transaction, and others are not.
        self.is_mixed = len({handler.takes_transaction for handler in self.handlers}) > 1 or self._rest is None

    @classmethod
    def of_one(cls, queue: str, function: Function) -> Self:
        """One handler for every message of a queue."""
        return cls(queue, {None: Handler.of(function)})

    def find(self, message: PeekedMessage) -> Handler:
        """Return the handler for a message.

        Raises:
            NoHandlerError: there is none.
        """
        if len(self._by_subject) == 1 and self._rest is not None:
            return self._rest
        handler = self._by_subject.get(message.subject, self._rest)
        if handler is None:
            raise NoHandlerError(
                f"no handler of queue {self.queue} takes the subject {message.subject!r}: there are handlers for"
                f" {', '.join(sorted(repr(subject) for subject in self._by_subject))}"
            )
        return handler

    def takes_transaction(self, message: PeekedMessage) -> bool:
        """Whether a message is handled in a transaction."""
        handler = self._by_subject.get(message.subject, self._rest) if self.is_mixed else self.handlers[0]
        return handler is not None and handler.takes_transaction

    def policy(self, message: PeekedMessage, policy: RetryPolicy) -> RetryPolicy:
        """The policy of a worker, as it is for the handler of a message."""
        handler = self._by_subject.get(message.subject, self._rest)
        if handler is None or handler.max_attempts is None:
            return policy
        return replace(policy, max_attempts=min(handler.max_attempts, policy.max_attempts or handler.max_attempts))

    def describe(self) -> list[str]:
        """A line for each handler: which messages it takes, its name and its arguments."""
        return [
            f"{self.queue}{'' if subject is None else f', subject {subject!r}'}: {handler.describe()}"
            for subject, handler in self._by_subject.items()
        ]


class Handlers:
    """The handlers of an application, by queue and subject: what a worker of several queues runs.

    >>> app = Handlers()
    >>> @app.handler("orders", subject="paid")
    ... def ship(message, tx): ...

    Pass it to a :class:`pgqueue.Worker` together with the client, or run ``pgqueue worker shop:app``.
    """

    def __init__(self) -> None:
        self._by_queue: dict[str, dict[str | None, Handler]] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._by_queue))})"

    @property
    def queues(self) -> Sequence[str]:
        """The queues that have handlers, in the order of registration."""
        return tuple(self._by_queue)

    def handler(self, queue: str, *, subject: str | None = None, max_attempts: int | None = None) -> Callable[[F], F]:
        """A decorator: the function handles the messages of a queue that have this subject.

        Without ``subject`` it handles all messages of the queue that no other handler takes. The function is called as
        ``handler(message)`` or ``handler(message, tx)``, and stays what it is. A message that no handler takes fails
        with :class:`~pgqueue.errors.NoHandlerError`, as if a handler had raised that. After ``max_attempts`` deliveries
        a message that fails is dead-lettered, if the worker's policy does not do so before.

        Raises:
            InvalidArgumentError: the queue has a handler for that subject already, or the function takes other
                arguments or is a generator function.
        """
        if not all(isinstance(name, str) for name in (queue, subject or "")):
            raise InvalidArgumentError("a handler is registered for a queue by name: @app.handler(queue, subject=…)")

        RetryPolicy(max_attempts=max_attempts)  # refuses what is no number of attempts

        def register(function: F) -> F:
            handler = replace(Handler.of(function), max_attempts=max_attempts)
            handlers = self._by_queue.setdefault(queue, {})
            if subject in handlers:
                which = "all other messages" if subject is None else f"the subject {subject!r}"
                taken = handlers[subject].name
                raise InvalidArgumentError(f"queue {queue} has a handler for {which} already: {taken}")
            handlers[subject] = handler
            return function

        return register

    def only(self, *queues: str) -> Handlers:
        """The handlers of some queues.

        Raises:
            InvalidArgumentError: one of the queues has no handler.
        """
        chosen = Handlers()
        chosen._by_queue = self._of(queues)
        return chosen

    def _of(self, queues: Sequence[str]) -> dict[str, dict[str | None, Handler]]:
        missing = [shown(queue) for queue in queues if queue not in list(self._by_queue)]
        if missing:
            there = ", ".join(self._by_queue) or "none"
            raise InvalidArgumentError(f"no handler for {', '.join(missing)}: the queues with handlers are {there}")
        return {queue: dict(self._by_queue[queue]) for queue in queues}

    @property
    def take_transactions(self) -> bool:
        """Whether a handler takes a transaction."""
        return any(handler.takes_transaction for handler in self._all)

    @property
    def transaction_kind(self) -> str | None:
        """The kind of transaction that the handlers ask for, ``psycopg`` by default; None if none takes any."""
        if not self.take_transactions:
            return None
        return next((handler.transaction_kind for handler in self._all if handler.transaction_kind), "psycopg")

    @property
    def run_as_tasks(self) -> bool:
        """Whether the handlers belong in an event loop: one is a coroutine function, and none needs a thread."""
        needs_a_thread = any(handler.takes_transaction and not handler.is_coroutine for handler in self._all)
        return any(handler.is_coroutine for handler in self._all) and not needs_a_thread

    def check_one_kind(self) -> None:
        """Check that one worker can run all of them.

        Raises:
            InvalidArgumentError: of the handlers that take a transaction, some are coroutine functions, and some not.
        """
        with_tx = [handler for handler in self._all if handler.takes_transaction]
        plain = [handler.name for handler in with_tx if not handler.is_coroutine]
        if 0 < len(plain) < len(with_tx):
            raise InvalidArgumentError(
                "all handlers with tx must be coroutine functions, or none:"
                f" {', '.join(plain)} {'is not one' if len(plain) == 1 else 'are none'}"
            )

    @property
    def _all(self) -> Iterator[Handler]:
        return (handler for by_subject in self._by_queue.values() for handler in by_subject.values())

    def describe(self) -> list[str]:
        """A line for each handler: the messages that it takes, its name and its arguments."""
        return [line for routes in self._routes().values() for line in routes.describe()]

    def _routes(self) -> dict[str, Routes]:
        if not self._by_queue:
            raise InvalidArgumentError("no handler is registered: decorate one with @app.handler(queue)")
        return {queue: Routes(queue, dict(by_subject)) for queue, by_subject in self._by_queue.items()}


def routes_of(queue: str | None, handler: Function | Handlers | None, message_type: type) -> dict[str, Routes]:
    """The program of a worker of one queue or several: a handler, or the handlers of an application.

    Raises:
        InvalidArgumentError: a queue goes with a function, and a client with :class:`Handlers`; or a handler is written
            for other messages than those of ``message_type``.
    """
    routes = _routes_of(queue, handler)
    for each in routes.values():
        for one in each.handlers:
            one.check_takes(message_type)
    return routes


def routes_in(queue: str, handler: Function | Handlers, message_type: type, *, asynchronous: bool) -> Routes:
    """The handlers of one queue: a function, or those of :class:`Handlers` that are registered for it.

    Raises:
        InvalidArgumentError: a function takes other arguments, or cannot be called here; or none is registered.
    """
    functions: Mapping[str | None, Function]
    if isinstance(handler, Handlers):
        functions = {subject: each.function for subject, each in handler._of([queue])[queue].items()}  # noqa: SLF001
    else:
        functions = {None: handler}
    routes = Routes(queue, {key: Handler.of(each, asynchronous=asynchronous) for key, each in functions.items()})
    for each in routes.handlers:
        each.check_takes(message_type)
    return routes


def _routes_of(queue: str | None, handler: Function | Handlers | None) -> dict[str, Routes]:
    if handler is None:
        raise InvalidArgumentError("give Worker(queue, handler), Worker(client, handlers) or Worker(tasks)")
    if isinstance(handler, Handlers):
        if queue is not None:
            raise InvalidArgumentError("handlers name their queues: give Worker(client, handlers), not a queue")
        return handler._routes()  # noqa: SLF001 - written for this
    if queue is None:
        raise InvalidArgumentError("a client goes with Handlers: give Worker(client.queue(name), handler)")
    return {queue: Routes.of_one(queue, handler)}
