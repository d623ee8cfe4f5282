"""Values of each type of SQL that a caller may pass by mistake or on purpose, written as SQL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, partial

from hypothesis import strategies as st

Written = st.SearchStrategy[str]

#: Values of each type, besides those drawn at random. PostgreSQL takes all of them: no error is that of its input.
EXTREMES: Mapping[str, Sequence[str]] = {
    "text": [
        "", " ", "null", "*", "%s", "'", "''; select 1", "\\", "\\x", "$1", "{}", "[", "\t\n", "é", "e\u0301", "\u202e",
        "\ufffd", "😀", "İ", "x" * 50, "x" * 129, "x" * 261, "x" * 5000, "a/b", "/", "-", "0", "public", "postgres",
        "none", "$Default", "pg_catalog", "UTC", "UTC+999", "0 0 * * *", "* * *", "$.*", "$.a ? (@ > 1e400)", "a = 1",
        "a like '%", "ACTIVE", "active", "READY", "waiting", "replace", "all", "LATEST",
    ],
    "boolean": ["true", "false"],
    "smallint": ["0", "1", "-1", "800", "1200", "2000", "32767", "-32768"],
    "integer": ["0", "1", "-1", "2", "100", "2147483647", "-2147483648"],
    "bigint": ["0", "1", "-1", "2147483648", "9223372036854775807", "-9223372036854775808", "9223372036854775806"],
    "double precision": ["0", "-0", "1", "0.001", "1e308", "-1e308", "1e-320", "NaN", "Infinity", "-Infinity"],
    "interval": [
        "0", "1 microsecond", "-1 microsecond", "1 second", "20 seconds", "1 minute", "1 hour", "1 day", "-1 day",
        "1 month", "-1 month", "1 month -30 days", "1 month -31 days", "100 years", "100 years 1 microsecond",
        "178000000 years", "-178000000 years", "2147483647 days", "2147483647 hours", "-2147483648 days",
    ],
    "timestamp with time zone": [
        "infinity", "-infinity", "4714-11-24 00:00:00+00 BC", "294276-12-31 23:59:59.999999+00", "0001-01-01",
        "1970-01-01", "now", "2000-02-29", "2099-01-01", "2125-01-01", "9999-12-31 23:59:59",
    ],
    "jsonb": [
        "null", "true", "0", "-1", "1e400", "1" * 200, "0.1e-300", '""', '"x"', '"{}"', "[]", "[null]", "{}",
        '{"": ""}', '{"a": null}', '{"type": 1}', '{"type": null, "message": []}', '{"a": {"b": {"c": {"d": 1}}}}',
        '[[1, "a"], {}]', '{"subject": 1}', '{"message_id": null}', '{"application_properties": []}',
        json.dumps("x" * 5000), json.dumps({"k" * 300: 1}), "[" * 3000 + "]" * 3000, '{"a":' * 3000 + "1" + "}" * 3000,
    ],
    "bytea": ["", "\\x00", "\\xff", "\\x" + "00ff" * 2000],
    "uuid": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "xid8": ["0", "1", "3", "18446744073709551615"],
    "int8range": ["empty", "(,)", "[1,2)", "[9223372036854775806,)"],
}  # fmt: skip

#: Intervals that PostgreSQL has since version 17.
INFINITE = ["infinity", "-infinity"]

KEYS = st.text(max_size=3) | st.sampled_from(["subject", "message_id", "type", "a", "session_id"])
JSON: st.SearchStrategy[object] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)

RANDOM: Mapping[str, st.SearchStrategy[str]] = {
    "text": TEXT,
    "integer": st.integers(-(2**31), 2**31 - 1).map(str) | st.integers(-5, 5).map(str),
    "bigint": st.integers(-(2**63), 2**63 - 1).map(str) | st.integers(-5, 20).map(str),
    "double precision": st.floats().map(str),
    "jsonb": JSON.map(partial(json.dumps, ensure_ascii=False)).filter(lambda text: "\\u0000" not in text),
    "bytea": st.binary(max_size=20).map(lambda data: "\\x" + data.hex()),
    "uuid": st.uuids().map(str),
    "xid8": st.integers(0, 2**64 - 1).map(str),
}  # fmt: skip


#: Values whose text PostgreSQL 14 would refuse: it takes no number above 2^31 in an interval.
COMPUTED: Mapping[str, Written] = {
    "interval": st.builds(
        "(make_interval(months => {}, days => {}) + {} * interval '1 microsecond')".format,
        st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**62), 2**62),
    ),
    "timestamp with time zone": st.integers(-210_866_803_200 + 86_400, 9_223_371_331_200).map(
        "(timestamptz '1970-01-01Z' + {} * interval '1 second')".format
    ),
}  # fmt: skip


def literal(kind: str, text: str) -> str:
    """A value of a type, from its text."""
    quoted = "'" + text.replace("'", "''") + "'"
    return f"{quoted}::{kind}"


@cache
def hostile(kind: str, version: int) -> Written:
    """Any value of a type, whatever the argument means."""
    if kind.endswith("[]"):
        return arrays(kind, hostile(kind[:-2], version))
    if kind not in EXTREMES:  # a row of a table
        written = ["{}", '{"cursor": 9223372036854775807}', '{"watched": [null]}']
        rows = [f"jsonb_populate_record(null::{kind}, '{one}')" for one in written]
        return st.sampled_from([f"null::{kind}", *rows])
    texts = [*EXTREMES[kind], *(INFINITE if kind == "interval" and version >= 17 else [])]
    found = st.sampled_from(texts) | RANDOM.get(kind, st.sampled_from(texts))
    literals = found.map(partial(literal, kind))
    return st.sampled_from([f"null::{kind}"]) | literals | COMPUTED.get(kind, literals)


def arrays(kind: str, members: Written) -> Written:
    """Arrays of any form: empty ones, with nulls, of two dimensions, with a lower bound other than 1."""
    flat = st.lists(members, max_size=4).map(lambda found: f"array[{', '.join(found)}]::{kind}")
    return st.one_of(
        flat,
        flat.map(lambda array: f"array[{array}, {array}]"),
        members.map(lambda one: f"array_fill({one}, array[2], array[0])"),
        members.map(lambda one: f"array_fill({one}, array[3000])"),
        members.map(lambda one: f"array[{one}, null]::{kind}"),
        st.just(f"null::{kind}"),
    )
