"""Rules of subscriptions: the filters and actions of Service Bus, and those of pgqueue."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from pgqueue import CorrelationFilter, JsonPathFilter, RuleProperties, SqlFilter
from pgqueue.gateway.amqp import types
from pgqueue.gateway.amqp.types import Described
from pgqueue.gateway.conditions import ARGUMENT, NOT_ALLOWED, Refusal
from pgqueue.model.topic import Filter

#: Codes of descriptors.
RULE, NO_ACTION, SQL_ACTION = 0x13700000004, 0x13700000005, 0x13700000006
FILTERS = {"SqlFilter": 0x1370000006, "TrueFilter": 0x1370000007, "FalseFilter": 0x1370000008,
           "CorrelationFilter": 0x1370000009}  # fmt: skip

#: Fields of a correlation filter, as Service Bus names them and in its order, and as pgqueue does.
FIELDS = {
    "correlation-id": "correlation_id",
    "message-id": "message_id",
    "to": "to",
    "reply-to": "reply_to",
    "label": "subject",
    "session-id": "session_id",
    "reply-to-session-id": "reply_to_session_id",
    "content-type": "content_type",
}

ALWAYS, NEVER = "1=1", "1=0"

#: An action that pgqueue can take: it sets a property to a literal, or to a parameter.
SET = re.compile(
    r"\s*set\s+(?:user\.)?(?:\[(?P<quoted>[^\]]+)\]|(?P<name>[A-Za-z_]\w*))\s*=\s*"
    r"(?P<value>'(?:[^']|'')*'|[+-]?[0-9]{1,40}(?:\.[0-9]{1,18})?(?:e[+-]?[0-9]{1,3})?|true|false|@\w+)\s*(?:;|$)",
    re.IGNORECASE,
)


def names_of(entity: str) -> tuple[str, str]:
    """The topic and the subscription. Raises Refusal for what is no subscription."""
    topic, _, subscription = entity.partition("/Subscriptions/")
    if not subscription:
        raise Refusal(NOT_ALLOWED, f"{entity} is no subscription, and has no rules")
    return topic, subscription


def sql_of(filter: SqlFilter | JsonPathFilter | None) -> str:
    """The filter as a condition of SQL; a JSON path is shown as a comment and the path."""
    if isinstance(filter, JsonPathFilter):
        return f"/* a JSON path of pgqueue */ {filter.path}"
    return ALWAYS if filter is None else filter.sql


def kind_of(filter: Filter | None) -> str:
    """How Service Bus names this kind of filters."""
    if isinstance(filter, CorrelationFilter):
        return "CorrelationFilter"
    return {ALWAYS: "TrueFilter", NEVER: "FalseFilter"}.get(sql_of(filter).replace(" ", ""), "SqlFilter")


def properties_of(action: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The properties that an action sets. Raises Refusal for one that does more than to set properties to literals."""
    found: dict[str, Any] = {}
    position = 0
    while position < len(action.rstrip(" ;")):
        step = SET.match(action, position)
        if step is None:
            rest = f"{action[position:]!r:.120}"
            raise Refusal(ARGUMENT, f"of an action pgqueue does `SET name = literal`, but not {rest}")
        found[step["quoted"] or step["name"]] = _value(step["value"], parameters or {})
        position = step.end()
    return found


def _value(literal: str, parameters: Mapping[str, Any]) -> Any:
    if literal.startswith("'"):
        return literal[1:-1].replace("''", "'")
    if literal.startswith("@"):
        if (name := literal if literal in parameters else literal[1:]) not in parameters:
            raise Refusal(ARGUMENT, f"the parameter {literal} of an action has no value")
        if not isinstance(value := parameters[name], str | bool | int | float | datetime | UUID):
            raise Refusal(ARGUMENT, f"the parameter {literal} of an action is a {type(value).__name__}")
        return value
    if literal.lower() in ("true", "false"):
        return literal.lower() == "true"
    return int(literal) if literal.lstrip("+-").isdigit() else float(literal)


def action_of(properties: Mapping[str, Any]) -> str:
    """The action that sets these properties."""
    names = {name: name if re.fullmatch(r"[A-Za-z_]\w*", name) else f"[{name}]" for name in properties}
    return "; ".join(f"SET {names[name]} = {_literal(value)}" for name, value in properties.items())


def _literal(value: Any) -> str:
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    text = json.dumps(value) if isinstance(value, dict | list | None) else str(value)
    return "'" + text.replace("'", "''") + "'"


def from_map(rule: Mapping[Any, Any]) -> tuple[Filter | None, dict[str, Any] | None]:
    """The filter and the properties to set of a rule that a client describes. Raises Refusal."""
    filter: Filter | None = None
    sql, correlation, action = (rule.get(name) for name in ("sql-filter", "correlation-filter", "sql-rule-action"))
    if isinstance(sql, dict) and isinstance(sql.get("expression"), str):
        always = sql["expression"].replace(" ", "") == ALWAYS
        filter = None if always else SqlFilter(sql["expression"], sql.get("parameters"))
    elif isinstance(correlation, dict):
        given = {ours: correlation.get(theirs) for theirs, ours in FIELDS.items()}
        fields = {name: None if value is None else str(value) for name, value in given.items()}
        filter = CorrelationFilter(**fields, application_properties=correlation.get("properties") or None)
    elif sql is not None or correlation is not None:
        raise Refusal(ARGUMENT, "a rule has a sql-filter with an expression, or a correlation-filter")
    if not isinstance(action, dict) or not action.get("expression"):
        return filter, None
    parameters = action.get("parameters")
    if not isinstance(parameters, dict | None):
        raise Refusal(ARGUMENT, "the parameters of an action are a map")
    return filter, properties_of(str(action["expression"]), parameters)


def as_described(rule: RuleProperties) -> Described:
    """A rule as clients list it."""
    kind = kind_of(rule.filter)
    if isinstance(rule.filter, CorrelationFilter):
        values = [getattr(rule.filter, ours) for ours in FIELDS.values()]
        values.append(dict(rule.filter.application_properties or {}))
    else:
        values = [sql_of(rule.filter), 20] if kind == "SqlFilter" else []
    action = Described(types.ulong(NO_ACTION), [])
    if rule.set_properties:
        action = Described(types.ulong(SQL_ACTION), [action_of(rule.set_properties), 20])
    described = [Described(types.ulong(FILTERS[kind]), values), action, rule.name, rule.created_at]
    return Described(types.ulong(RULE), described)


def json_bytes(value: Any) -> bytes:
    """JSON as bytes, as it is sent."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
