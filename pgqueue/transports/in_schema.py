"""Transports to an instance in another schema than ``pgqueue``: they rename the schema in each statement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar, cast

from pgqueue.flows import Begun, Flow, Line, Shared, Source
from pgqueue.model.schemas import DEFAULT, in_schema
from pgqueue.statements import Statement

T = TypeVar("T")


def source_in(source: Source, schema: str) -> Source:
    """The source of an instance in this schema."""
    return source if schema == DEFAULT else cast(Source, _Source(source, schema))


def shared_in(shared: Shared, schema: str) -> Shared:
    """A caller's transaction, for an instance in this schema."""
    return shared if schema == DEFAULT else cast(Shared, _Shared(shared, schema))


def begun_in(begin: Flow[Begun], schema: str) -> Flow[Begun]:
    """Begin a transaction for an instance in this schema."""
    return begin if schema == DEFAULT else _begun_in(begin, schema)


def _begun_in(begin: Flow[Begun], schema: str) -> Flow[Begun]:
    return cast(Begun, _Begun((yield from begin), schema))


class _Executor:
    """Renames what is to be executed; all else is that of the transport below."""

    def __init__(self, below: Any, schema: str) -> None:
        self._below = below
        self._schema = schema

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)

    def _renamed(self, statement: Statement[T]) -> Statement[T]:
        return statement._replace(sql=in_schema(statement.sql, self._schema))

    def execute(self, statement: Statement[T]) -> Flow[T]:
        return cast(Flow[T], self._below.execute(self._renamed(statement)))


class _Shared(_Executor):
    def __init__(self, below: Any, schema: str) -> None:
        super().__init__(below, schema)
        below.quietly = self._renamed(below.quietly)


class _Source(_Executor):
    def begin(self) -> Flow[Begun]:
        return begun_in(self._below.begin(), self._schema)

    def line(self) -> Flow[Line]:
        return cast(Line, _Line((yield from self._below.line()), self._schema))


class _Begun(_Executor):
    def commit(self, last: Statement[Any] | None = None) -> Flow[None]:
        return cast(Flow[None], self._below.commit(None if last is None else self._renamed(last)))

    def commit_and_begin(self, last: Statement[Any], first: Statement[T]) -> Flow[T]:
        return cast(Flow[T], self._below.commit_and_begin(self._renamed(last), self._renamed(first)))


class _Line(_Executor):
    def exchange(self, statement: Statement[T] | None, *, commit: bool) -> Flow[T | None]:
        renamed = None if statement is None else self._renamed(statement)
        return cast("Flow[T | None]", self._below.exchange(renamed, commit=commit))

    def pipeline(self, statements: Iterable[Statement[T]]) -> Flow[list[T]]:
        return cast("Flow[list[T]]", self._below.pipeline(map(self._renamed, statements)))
