"""SQL filters, in the grammar of Service Bus, as conditions of SQL/JSON paths.

In SQL a comparison with a missing property is unknown, and so is its negation. In a path it is false, and its negation
is true. So each condition is translated to two paths: one for when it is true, one for when it is false. NOT exchanges
them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import reduce
from itertools import product
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast
from uuid import UUID

from lark import Lark, Transformer, UnexpectedInput, UnexpectedToken, v_args
from lark.exceptions import VisitError

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.arguments import text
from pgqueue.model.columns import FILTERABLE

#: As in Service Bus.
MOST_CHARACTERS: Final = 1024

GRAMMAR: Final = r"""
?condition: conjunction | condition _OR conjunction -> disjunction
?conjunction: negation | conjunction _AND negation -> conjunction
?negation: predicate | _NOT negation            -> negation
?predicate: "(" condition ")"
    | sum COMPARISON sum                        -> comparison
    | sum _IN among                             -> is_in
    | sum _NOT _IN among                        -> is_not_in
    | sum _LIKE STRING [_ESCAPE STRING]         -> is_like
    | sum _NOT _LIKE STRING [_ESCAPE STRING]    -> is_not_like
    | property _IS _NULL                        -> is_null
    | property _IS _NOT _NULL                   -> exists
    | _EXISTS "(" property ")"                  -> exists
among: "(" sum ("," sum)* ")"
?sum: product | sum (PLUS | MINUS) product      -> arithmetic
?product: factor | product (TIMES | DIVIDED | MODULO) factor -> arithmetic
?factor: value | (PLUS | MINUS) factor          -> signed
?value: "(" sum ")" | property
    | STRING                                    -> text
    | NUMBER                                    -> number
    | (TRUE | FALSE)                            -> truth
    | _NULL                                     -> nothing
?property: [SCOPE "."] (NAME | QUOTED)          -> property
    | _PROPERTY "(" STRING ")"                  -> named

COMPARISON: "=" | "<>" | "!=" | "<=" | ">=" | "<" | ">"
PLUS: "+"
MINUS: "-"
TIMES: "*"
DIVIDED: "/"
MODULO: "%"
STRING: /'([^']|'')*'/
NUMBER: /(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?/i
QUOTED: /\[([^\]]|\]\])+\]/ | /"([^"]|"")+"/
NAME: /[^\W\d]\w*/
SCOPE.1: /(sys|user)(?=\s*\.)/i
_OR.2: /or\b/i
_AND.2: /and\b/i
_NOT.2: /not\b/i
_IN.2: /in\b/i
_LIKE.2: /like\b/i
_ESCAPE.2: /escape\b/i
_IS.2: /is\b/i
_NULL.2: /null\b/i
_EXISTS.2: /exists\b/i
_PROPERTY.2: /(property|p)(?=\s*\()/i
TRUE.2: /true\b/i
FALSE.2: /false\b/i
%ignore /\s+/
"""

OPERATORS: Final = {"=": "==", "<>": "!="}
OPPOSITE: Final = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}

#: The system properties, by the names that Service Bus has for them and by ours, without underscores and in lower case.
SYSTEM: Final = {"label": "subject", **{column.name.replace("_", ""): column.name for column in FILTERABLE}}


#: A text or a truth value, a number, a UUID, a datetime with a zone, one without: values that are compared with their
#: own kind only. A comparison of the two kinds of datetime would end the whole path with an error.
Kind: TypeAlias = Literal["plain", "number", "uuid", "datetime", "local"]

#: The condition of a datetime that it has a zone.
ZONED: Final = '@ like_regex "[T ].*[Z+-]"'

#: The condition of values that are of different kinds.
UNKNOWN: Final = "(null != null)"


READS_BODY: Final = re.compile(r"\bbody\s*[.[]", re.IGNORECASE)


class Condition(NamedTuple):
    """A path that is true where a condition is true, and one that is true where it is false."""

    true: str
    false: str

    def __invert__(self) -> Condition:
        return Condition(self.false, self.true)


class Value(NamedTuple):
    """Paths to a value, one for each way to compare it, and the path to each property in it.

    A property may be of any type, and a path to one that it is not of finds nothing.
    """

    paths: Mapping[Kind, tuple[str, ...]]
    #: The path in arithmetic, to a number.
    operand: str
    properties: tuple[str, ...] = ()


def to_json_path(sql: str) -> str:
    """Returns an SQL/JSON path that is true for the same messages as the SQL filter.

    Raises:
        InvalidArgumentError: the text is no SQL filter, is too long, or names a system property that filters do not
            compare.
    """
    if text("the SQL of a filter", sql) is None or len(sql) > MOST_CHARACTERS:
        raise InvalidArgumentError(f"an SQL filter is a text of at most {MOST_CHARACTERS} characters")
    try:
        return cast("Condition", PARSER.parse(sql)).true
    except VisitError as error:
        raise error.orig_exc from None
    except UnexpectedInput as error:
        is_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
        place = "at its end" if is_end else f"at {sql[error.pos_in_stream :]!r:.40}"
        remedy = ": compare the body with a JsonPathFilter" if READS_BODY.search(sql) else ""
        raise InvalidArgumentError(f"the SQL filter {sql!r} cannot be read {place}{remedy}") from None


@v_args(inline=True)
class Translation(Transformer[Any, Any]):
    """Translates each rule of the grammar to a path."""

    def conjunction(self, one: Condition, other: Condition) -> Condition:
        return Condition(f"({one.true} && {other.true})", f"({one.false} || {other.false})")

    def disjunction(self, one: Condition, other: Condition) -> Condition:
        return ~self.conjunction(~one, ~other)

    def negation(self, condition: Condition) -> Condition:
        return ~condition

    def comparison(self, one: Value, operator: str, other: Value) -> Condition:
        sign = OPERATORS.get(operator, operator)
        properties = (*one.properties, *other.properties)
        return Condition(_all(properties, _any(one, sign, other)), _all(properties, _any(one, OPPOSITE[sign], other)))

    def is_in(self, value: Value, among: list[Value]) -> Condition:
        return reduce(self.disjunction, (self.comparison(value, "=", other) for other in among))

    def is_not_in(self, value: Value, among: list[Value]) -> Condition:
        return ~self.is_in(value, among)

    def among(self, *values: Value) -> list[Value]:
        return list(values)

    def is_like(self, value: Value, pattern: str, escape: str | None = None) -> Condition:
        (path,) = value.paths.get("plain", ("null",))
        likes = f'{path} like_regex {json.dumps(_regular_expression(pattern, escape))} flag "s"'
        return Condition(_all(value.properties, likes), _all(value.properties, f"!({likes})"))

    def is_not_like(self, value: Value, pattern: str, escape: str | None = None) -> Condition:
        return ~self.is_like(value, pattern, escape)

    def exists(self, value: Value) -> Condition:
        (path,) = value.properties
        return Condition(_is_not("null", path), f"!({_is_not('null', path)})")

    def is_null(self, value: Value) -> Condition:
        return ~self.exists(value)

    def arithmetic(self, one: Value, operator: str, other: Value) -> Value:
        return _number(f"({one.operand} {operator} {other.operand})", *one.properties, *other.properties)

    def signed(self, operator: str, value: Value) -> Value:
        return _number(f"({operator} {value.operand})", *value.properties)

    def text(self, literal: str) -> Value:
        value = _unquoted(literal)
        path = json.dumps(value)
        paths: dict[Kind, tuple[str, ...]] = {"plain": (path,)}
        with suppress(ValueError):
            paths["uuid"] = (json.dumps(str(UUID(value))),)
        with suppress(ValueError):
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is None:
                paths["local"] = (_datetime(moment),)
                moment = moment.replace(tzinfo=UTC)
            paths["datetime"] = (_datetime(moment),)
        return Value(paths, path)

    def number(self, literal: str) -> Value:
        # JSON has digits on both sides of a point, and no zeros before other digits.
        return _number(re.sub(r"^(?=\.)", "0", re.sub(r"^0+(?=\d)", "", re.sub(r"\.(?=\D|$)", ".0", literal))))

    def truth(self, literal: str) -> Value:
        return Value({"plain": (literal.lower(),)}, literal.lower())

    def nothing(self) -> Value:
        return Value({}, "null")

    def property(self, scope: str | None, name: str) -> Value:
        name = _unquoted(name) if name[0] in "'\"[" else str(name)
        if scope is None or scope.lower() == "user":
            path = f"$.application_properties.{json.dumps(name)}"
            number = f'{path} ? (@.type() == "number" || exists(@."$decimal"))'
            paths: dict[Kind, tuple[str, ...]] = {
                "plain": (path,),
                "number": (path, f'{path}."$decimal".double()'),
                "uuid": (f'{path}."$uuid"',),
                "datetime": (f'{path}."$datetime" ? ({ZONED}).datetime()',),
                "local": (f'{path}."$datetime" ? (!({ZONED})).datetime()',),
            }
            return Value(paths, f'{number}.** ? (@.type() != "object").double()', (path,))
        if column := SYSTEM.get(name.replace("_", "").lower()):
            path = f'$."{column}"'
            return Value({"plain": (path,)}, path, (path,))
        names = ", ".join(sorted(set(SYSTEM.values())))
        raise InvalidArgumentError(f"an SQL filter compares these system properties: {names}; not sys.{name}")

    def named(self, name: str) -> Value:
        return self.property(None, name)


PARSER: Final = Lark(GRAMMAR, start="condition", parser="lalr", transformer=Translation(), maybe_placeholders=True)


def _all(properties: Iterable[str], condition: str) -> str:
    """The condition of properties that are known. Of a list, a path would compare each element."""
    known = [_is_not(kind, path) for path in dict.fromkeys(properties) for kind in ("null", "array")]
    return f"({' && '.join([*known, condition])})"


def _is_not(kind: str, path: str) -> str:
    return f'{path}.type() != "{kind}"'


def _any(one: Value, sign: str, other: Value) -> str:
    """The comparison of two values, of whichever kind they are."""
    kinds = [kind for kind in one.paths if kind in other.paths]
    if not (one.properties or other.properties):
        kinds = kinds[:1]  # two literals are compared as texts, also if they are UUIDs
    pairs = (pair for kind in kinds for pair in product(one.paths[kind], other.paths[kind]))
    compared = dict.fromkeys(f"{left} {sign} {right}" for left, right in pairs) or [UNKNOWN]
    return f"({' || '.join(compared)})"


def _datetime(moment: datetime) -> str:
    return f"{json.dumps(moment.isoformat())}.datetime()"


def _number(path: str, *properties: str) -> Value:
    return Value({"number": (path,)}, path, properties)


def _unquoted(literal: str) -> str:
    end = literal[-1]
    return literal[1:-1].replace(end * 2, end)


def _regular_expression(pattern: str, escape: str | None) -> str:
    escaping = None if escape is None else _unquoted(escape)
    if escaping is not None and len(escaping) != 1:
        raise InvalidArgumentError(f"ESCAPE in an SQL filter takes one character, not {escape}")
    found, characters = "", iter(_unquoted(pattern))
    for character in characters:
        if character == "%" != escaping and found.endswith(".*"):
            continue  # a regular expression with many of them in a row takes minutes to compile
        if character != escaping:
            found += {"%": ".*", "_": "."}.get(character, re.escape(character))
        elif escaped := next(characters, ""):
            found += re.escape(escaped)
        else:
            raise InvalidArgumentError(f"the pattern {pattern} of an SQL filter ends with its escape character")
    return f"^{found}$"
