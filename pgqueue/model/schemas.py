"""The schema of an instance of pgqueue, and the names that go with it.

SQL is written for the schema ``pgqueue``. For another schema its names are replaced where it is executed, those of the
definitions when they are installed. Roles, channels and settings of a session are in no schema. They have a plain name
that is made of the schema's: for ``"Jobs of Acme"`` the role ``jobs_of_acme_sender``, the channel
``jobs_of_acme_settled``, the setting ``jobs_of_acme.notify``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import LiteralString

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.arguments import shown

DEFAULT = "pgqueue"

#: The longest names that are made of it, such as that of a role, have to fit into PostgreSQL's 63 bytes.
VALID = re.compile(r"[A-Za-z_][A-Za-z0-9_ -]{0,39}")

#: In the plain form: names of PostgreSQL's, and of the history of another instance. A migration drops the functions and
#: views of its schema that it does not know, so the schema must be its own.
TAKEN = re.compile(r"pg_.*|plpgsql|public|information_schema|.*_history")

#: The settings of a session; some end in the number of a queue.
SETTINGS = r"(?:notify|repairing|definitions)\b|(?:scan|horizon|turn|length|dead_letters|keys_swept)_(?!\w)"

NAME = re.compile(
    r"(?<=[{,])pgqueue\.(?P<element>\w+)(?=[,}])"
    rf"""|(?<![\w."])pgqueue(?:(?P<part>_|\.(?={SETTINGS}))|(?=\.[\w%'"]))"""
    r"|(?<=')pgqueue(?='::regnamespace)|(?<=to_regnamespace\(')pgqueue(?=')|(?<={)pgqueue(?=,)"
    r"|(?<=\bschema )pgqueue\b|(?<=\bexists )pgqueue\b"
)


def check_schema(schema: object) -> str:
    """The schema, if an instance can have it.

    Raises:
        InvalidArgumentError: it cannot.
    """
    if not isinstance(schema, str) or not VALID.fullmatch(schema):
        raise InvalidArgumentError(
            f"schema must begin with a letter and have at most 40 letters, digits, spaces, - and _, not {shown(schema)}"
        )
    if TAKEN.fullmatch(plain(schema)):
        raise InvalidArgumentError(
            f"schema cannot be {schema!r}: pgqueue needs one of its own, not called public, pg_… or …_history"
        )
    return schema


def plain(schema: str) -> str:
    """The schema's name in the names of roles, channels and settings, and of the schema of the history."""
    return re.sub("[ -]", "_", schema.lower())


def history_schema(schema: str) -> str:
    """Where the days of the history are, and nothing else: so they do not fill a list of the tables in the schema."""
    return f"{plain(schema)}_history"


@lru_cache(maxsize=4096)
def in_schema(sql: LiteralString, schema: str) -> LiteralString:
    """The same SQL for another schema."""
    return sql if schema == DEFAULT else NAME.sub(lambda found: _name(found, schema), sql)


def _name(found: re.Match[str], schema: str) -> str:
    if found["part"]:
        return plain(schema) + found["part"]
    if found["element"]:  # of an array, in text
        return rf'"\"{schema}\".{found["element"]}"'
    return f'"{schema}"'
