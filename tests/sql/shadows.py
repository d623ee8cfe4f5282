"""Shadows of PostgreSQL's own functions and operators, in a schema where strangers may create something.

Where a call does not fit what pg_catalog has to the letter, because an argument is cast or the function is polymorphic,
one in another schema of the search_path that does fit is preferred. So there is a shadow of every name that our SQL
uses, for all the types that occur there. A call of one is refused and recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

from pgqueue.testing import Database

ROOT = Path(__file__).parents[2]
TEXTS = [*(ROOT / "sql").rglob("*.sql"), *(ROOT / "migrations").rglob("*.sql"), *(ROOT / "pgqueue").rglob("*.py")]
NAME = re.compile(r"\b([a-z_0-9]+)\s*\(")
OPERATOR = re.compile(r"(?<= )[-+*/<>=~!@#%&|]+(?= )")

INTEGERS = ["smallint", "integer", "bigint"]
SCALARS = [
    *INTEGERS,
    *("numeric", "double precision", "text", "name", "boolean", "timestamp with time zone", "interval", "jsonb"),
    *("bytea", "uuid", "xid8", "xid", "tid", "oid", "regclass", "regnamespace"),
]
ARRAYS = [f"{scalar}[]" for scalar in SCALARS]
PAIRS = {
    *product(SCALARS, SCALARS),
    *((array, array) for array in ARRAYS),
    *zip(SCALARS, ARRAYS, strict=True),
    *zip(ARRAYS, SCALARS, strict=True),
}

POLYMORPHIC = {
    "anyarray": ARRAYS,
    "anycompatiblearray": ARRAYS,
    "anynonarray": SCALARS,
    "anycompatible": SCALARS,
    "anyelement": [*SCALARS, *ARRAYS],
    '"any"': [*SCALARS, *ARRAYS],
    "anyrange": ["int8range"],
    "anymultirange": [],
}
MIXED = ["text", *INTEGERS]
"""The types for a function of arguments of any type, where there are more than two of them."""

ARGUMENTS = """
select proname, prokind = 'a', provariadic = '"any"'::regtype,
       array(select format_type(type, null) from unnest(proargtypes) with ordinality as given (type, nth) order by nth)
  from pg_proc
 where pronamespace = 'pg_catalog'::regnamespace and proname = any (%s) and prokind in ('f', 'a')
"""

OPERANDS = """
select oprname, format_type(oprleft, null), format_type(oprright, null)
  from pg_operator
 where oprnamespace = 'pg_catalog'::regnamespace
"""

IMPLICIT_CASTS = """
select format_type(castsource, null), format_type(casttarget, null) from pg_cast where castcontext = 'i'
"""

FUNCTION = """
create function public.{name}({types}) returns boolean language plpgsql as $$
begin
    perform pg_catalog.nextval('shadow.calls');
    raise exception 'a shadow was called: {name} of {types}';
end
$$;
"""

AGGREGATE = (
    FUNCTION.replace("{name}({types})", "step_of_{name}(boolean, {types})")
    + "create aggregate public.{name}({types}) (sfunc = public.step_of_{name}, stype = boolean);\n"
)

OPERATION = "create operator public.{name} (leftarg = {left}, rightarg = {right}, function = public.operator);\n"

Signature = tuple[str, ...]


@contextmanager
def stranger(dsn: str) -> Iterator[str]:
    """An ordinary role; what it owns in this database is dropped with it."""
    role = f"stranger_{uuid4().hex[:12]}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"create role {role}".encode())
        try:
            yield role
        finally:
            connection.execute(f"drop owned by {role}; drop role {role}".encode())


def cast(database: Database, role: str) -> None:
    """Shadow everything in the schema public, as a role that may create there."""
    with database.connect() as connection:
        connection.execute("create schema shadow; create sequence shadow.calls")
        connection.execute(f"grant create on schema public to {role}; set role {role}".encode())
        connection.execute("set search_path = pg_catalog")
        connection.execute("".join([*_operators(connection), *_functions(connection)]).encode())


def were_called(connection: psycopg.Connection[Any]) -> bool:
    return connection.execute("select is_called from shadow.calls").fetchone() == (True,)


def _operators(connection: psycopg.Connection[Any]) -> Iterator[str]:
    used = {operator for text in TEXTS for operator in OPERATOR.findall(text.read_text())}
    own = set(connection.execute(OPERANDS).fetchall())
    for left, right in sorted(PAIRS):
        yield FUNCTION.format(name="operator", types=f"{left}, {right}")
    for name in sorted(used & {name for name, *_ in own}):
        for left, right in sorted(PAIRS):
            if (name, left, right) not in own:
                yield OPERATION.format(name=name, left=left, right=right)


def _functions(connection: psycopg.Connection[Any]) -> Iterator[str]:
    used = sorted({name for text in TEXTS for name in NAME.findall(text.read_text())})
    fitting: dict[str, list[str]] = {}
    for source, target in connection.execute(IMPLICIT_CASTS).fetchall():
        if source in SCALARS:
            fitting.setdefault(target, []).append(source)
    own = connection.execute(ARGUMENTS, [used]).fetchall()
    done = {(name, tuple(types)) for name, _, _, types in own}
    for name, is_aggregate, takes_anything, types in own:
        for given in _calls(types, takes_anything, fitting):
            if (name, given) not in done:
                done.add((name, given))
                yield (AGGREGATE if is_aggregate else FUNCTION).format(name=name, types=", ".join(given))


def _calls(types: list[str], takes_anything: bool, fitting: dict[str, list[str]]) -> Iterator[Signature]:
    """With what such a function may be called: types that fit, its own among them."""
    choices = [POLYMORPHIC.get(each) or [each, *fitting.get(each, [])] for each in types]
    if not takes_anything:
        yield from product(*choices)
        return
    *fixed, anything = choices
    for arguments in ([anything], [SCALARS] * 2, [MIXED] * 3):
        yield from product(*fixed, *arguments)
