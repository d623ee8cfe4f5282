"""Queues, topics, subscriptions and rules in the XML of Service Bus, and as settings of pgqueue."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from pgqueue import CorrelationFilter, RuleProperties
from pgqueue.gateway import rules
from pgqueue.gateway.conditions import ARGUMENT, Refusal
from pgqueue.gateway.entities import entity_of
from pgqueue.model.arguments import LONGEST

ATOM = "http://www.w3.org/2005/Atom"
SB = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
COUNTS = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"
SCHEMA = "http://www.w3.org/2001/XMLSchema"
TYPE = f"{{{INSTANCE}}}type"

QUEUE, TOPIC, SUBSCRIPTION, RULE = "QueueDescription", "TopicDescription", "SubscriptionDescription", "RuleDescription"

#: How Service Bus writes that there is no limit of time.
FOREVER = "P10675199DT2H48M5.4775807S"

#: Characters that XML does not have.
ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

DURATION = re.compile(r"P(?:(\d{1,9})D)?(?:T(?:(\d{1,12})H)?(?:(\d{1,12})M)?(?:(\d{1,12}(?:\.\d+)?)S)?)?")


def instant(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _read_instant(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def _read_number(text: str) -> int:
    if re.fullmatch("[0-9]{1,15}", text) is None:
        raise ValueError(text)
    return int(text)


def _write_duration(value: timedelta) -> str:
    seconds = f"{value.seconds % 60}.{value.microseconds:06}".rstrip("0").rstrip(".")
    return f"P{value.days}DT{value.seconds // 3600}H{value.seconds // 60 % 60}M{seconds}S"


def _read_duration(text: str) -> timedelta:
    if (found := DURATION.fullmatch(text)) is None:
        raise ValueError(text)
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def _read_entity(text: str) -> str:
    if not (found := entity_of(text)):
        raise ValueError(text)
    return found


class Kind(NamedTuple):
    """How values are written and read. An optional one is left out where there is none."""

    write: Callable[[Any], str]
    read: Callable[[str], Any]
    is_optional: bool = False

    def text(self, value: Any) -> str | None:
        """A value as clients get it; None for one that is left out."""
        return None if value is None and self.is_optional else ILLEGAL.sub("\ufffd", self.write(value))


TIME = Kind(_write_duration, _read_duration)
LIMIT = Kind(
    lambda value: FOREVER if value is None else _write_duration(value),
    lambda text: found if (found := _read_duration(text)) <= LONGEST else None,
)
TRUTH = Kind(lambda value: str(value).lower(), lambda text: {"true": True, "false": False}[text.lower()])
NUMBER = Kind(str, _read_number)
INTEGER, FLOAT = Kind(str, int), Kind(str, float)
STATUS = Kind(
    lambda value: value.title().replace("_", ""), lambda text: re.sub("(?<=[a-z])(?=[A-Z])", "_", text).upper()
)
ENTITY = Kind(str, _read_entity, is_optional=True)
METADATA = Kind(
    lambda value: value if isinstance(value, str) else rules.json_bytes(value).decode(), str, is_optional=True
)
KILOBYTES = Kind(lambda value: str(-(-value // 1024)), lambda text: _read_number(text) * 1024, is_optional=True)

ALL, LASTING, SENT_TO = (QUEUE, TOPIC, SUBSCRIPTION), (QUEUE, SUBSCRIPTION), (QUEUE, TOPIC)

#: The properties of descriptions: which have it, its name, and a setting and its kind, or values of no consequence.
PROPERTIES: tuple[tuple[tuple[str, ...], str, str, Kind | str], ...] = (
    (LASTING, "LockDuration", "lock_duration", TIME),
    (SENT_TO, "MaxSizeInMegabytes", "", "1024"),
    (SENT_TO, "RequiresDuplicateDetection", "requires_duplicate_detection", TRUTH),
    (LASTING, "RequiresSession", "requires_session", TRUTH),
    (ALL, "DefaultMessageTimeToLive", "default_message_time_to_live", LIMIT),
    (LASTING, "DeadLetteringOnMessageExpiration", "dead_lettering_on_message_expiration", TRUTH),
    ((SUBSCRIPTION,), "DeadLetteringOnFilterEvaluationExceptions", "", "false|true"),  # filters do not fail
    (SENT_TO, "DuplicateDetectionHistoryTimeWindow", "duplicate_detection_history_time_window", TIME),
    (LASTING, "MaxDeliveryCount", "max_delivery_count", NUMBER),
    (ALL, "EnableBatchedOperations", "", "true"),
    ((TOPIC,), "FilteringMessagesBeforePublishing", "", "false"),
    (SENT_TO, "IsAnonymousAccessible", "", "false"),
    (ALL, "Status", "status", STATUS),
    (LASTING, "ForwardTo", "forward_to", ENTITY),
    (ALL, "UserMetadata", "user_metadata", METADATA),
    (SENT_TO, "SupportOrdering", "", "true"),
    (LASTING, "AutoDeleteOnIdle", "auto_delete_on_idle", LIMIT),
    (SENT_TO, "EnablePartitioning", "", "false"),
    (ALL, "EntityAvailabilityStatus", "", "Available"),
    (LASTING, "ForwardDeadLetteredMessagesTo", "forward_dead_lettered_messages_to", ENTITY),
    (SENT_TO, "EnableExpress", "", "false"),
    ((QUEUE,), "MaxMessageSizeInKilobytes", "max_message_size", KILOBYTES),
)

#: Properties that Service Bus only reports, and the rule of a new subscription.
REPORTED = {"AccessedAt", "CountDetails", "CreatedAt", "MessageCount", "SizeInBytes", "SubscriptionCount", "UpdatedAt",
            "SqlFilterCount", "CorrelationFilterCount", "DefaultRuleDescription"}  # fmt: skip


#: The fields of a correlation filter, as XML names them.
TAGS = {name: name.title().replace("-", "") for name in rules.FIELDS}


def properties_of(kind: str) -> Iterator[tuple[str, str, Kind | str]]:
    """The properties that a description of this kind has."""
    return ((name, setting, how) for of, name, setting, how in PROPERTIES if kind in of)


def content_of(body: bytes) -> ET.Element:
    """The description in an entry, with tags that have no namespaces. Raises Refusal."""
    try:
        text = body.decode("utf-8-sig")
        if "<!" in text:
            raise Refusal(ARGUMENT, "the entry has a document type, or a comment")
        content = ET.fromstring(text).find(f"{{{ATOM}}}content")  # noqa: S314 - without a document type no entities
    except (ET.ParseError, LookupError, ValueError) as error:
        raise Refusal(ARGUMENT, f"the body is no entry of Atom: {error}") from None
    if content is None or len(content) != 1:
        raise Refusal(ARGUMENT, "the body is no entry of Atom with a content")
    for element in content.iter():
        element.tag = element.tag.rpartition("}")[2]
    return content[0]


def settings_of(described: ET.Element, former: Any = None) -> dict[str, Any]:
    """The settings in a description, or those that differ from the former ones. Raises Refusal."""
    texts = {one.tag: (one.text or "").strip() or "…" * len(one) for one in described}
    found = {}
    for name, setting, kind in properties_of(described.tag):
        text = texts.pop(name, "")
        if isinstance(kind, str):
            if text and text not in kind.split("|"):
                raise Refusal(ARGUMENT, f"pgqueue does not have {name}: leave it out, or {kind}")
        elif text or kind in (ENTITY, METADATA):  # which are removed by leaving them out
            value = _read(name, kind, text) if text else None
            if value is not None if former is None else kind.text(value) != kind.text(getattr(former, setting)):
                found[setting] = value
    if unknown := [name for name, text in texts.items() if text and name not in REPORTED]:
        raise Refusal(ARGUMENT, f"pgqueue does not have {', '.join(unknown)}: leave it out")
    return found


def _read(name: str, kind: Kind | None, text: str) -> Any:
    with suppress(KeyError, OverflowError, ValueError):
        if kind is not None:
            return kind.read(text)
    raise Refusal(ARGUMENT, f"{name} cannot be {text!r:.80}")


def description(kind: str, properties: Any, runtime: Any, host: str) -> ET.Element:
    """The description of a queue, a topic or a subscription. A topic has no messages of its own."""
    made = element(kind)
    for name, setting, how in properties_of(kind):
        text = how.partition("|")[0] if isinstance(how, str) else how.text(getattr(properties, setting))
        if text is not None:
            filled(made, **{name: f"sb://{host}/{text}" if how is ENTITY else text})
    created = instant(getattr(properties, "created_at", None) or datetime.now(UTC))
    active, dead, scheduled, deferred, size = (0,) * 5 if runtime is None else (
        runtime.ready + runtime.locked, runtime.dead_letters, runtime.scheduled, runtime.deferred, runtime.size_in_bytes
    )  # fmt: skip
    filled(made, CreatedAt=created, UpdatedAt=created, AccessedAt=created, SizeInBytes=size,
           MessageCount=active + dead + scheduled + deferred)  # fmt: skip
    each = {"Active": active, "DeadLetter": dead, "Scheduled": scheduled, "Transfer": 0, "TransferDeadLetter": 0}
    filled(ET.SubElement(made, "CountDetails", {"xmlns:n": COUNTS}),
           **{f"n:{name}MessageCount": count for name, count in each.items()})  # fmt: skip
    return made


def rule_of(described: ET.Element) -> tuple[str, dict[str, Any]]:
    """The name of a rule, and its filter and what it sets, as arguments. Raises Refusal."""
    filter, action, rule = described.find("Filter"), described.find("Action"), {}
    kind = "TrueFilter" if filter is None else filter.get(TYPE, "").rpartition(":")[2]
    if kind == "FalseFilter":
        rule["sql-filter"] = {"expression": rules.NEVER}
    elif kind == "SqlFilter" and filter is not None:
        rule["sql-filter"] = _sql(filter)
    elif kind == "CorrelationFilter" and filter is not None:
        fields: dict[str, Any] = {name: filter.findtext(tag) for name, tag in TAGS.items()}
        rule["correlation-filter"] = fields | {"properties": _pairs(filter, "Properties")}
    elif kind != "TrueFilter":
        raise Refusal(ARGUMENT, f"there is no filter of the type {kind!r}")
    if action is not None:
        rule["sql-rule-action"] = _sql(action)
    made = dict(zip(("filter", "set_properties"), rules.from_map(rule), strict=True))
    return described.findtext("Name") or "$Default", made


def _sql(element: ET.Element) -> dict[str, Any]:
    expression = element.findtext("SqlExpression") or ""
    return {"expression": expression, "parameters": _pairs(element, "Parameters")}


def rule_description(rule: RuleProperties) -> ET.Element:
    """The description of a rule."""
    made = element(RULE)
    filter = ET.SubElement(made, "Filter", {"i:type": rules.kind_of(rule.filter)})
    if isinstance(rule.filter, CorrelationFilter):
        filled(filter, **{TAGS[theirs]: getattr(rule.filter, ours) for theirs, ours in rules.FIELDS.items()})
        _add_pairs(ET.SubElement(filter, "Properties"), rule.filter.application_properties or {})
    else:
        filled(filter, SqlExpression=rules.sql_of(rule.filter), CompatibilityLevel=20)
    action = ET.SubElement(made, "Action", {"i:type": "SqlRuleAction" if rule.set_properties else "EmptyRuleAction"})
    if rule.set_properties:
        filled(action, SqlExpression=rules.action_of(rule.set_properties), CompatibilityLevel=20)
    return filled(made, CreatedAt=instant(rule.created_at), Name=rule.name)


def document(tag: str, title: str, address: str, contents: list[ET.Element], more: str = "") -> ET.Element:
    """An entry with its content, or a feed with its entries and where there are more."""
    now = instant(datetime.now(UTC))
    made = filled(ET.Element(tag, xmlns=ATOM), id=address, title=title, published=now, updated=now)
    for rel, href in {"self": address, "next": more}.items():
        if href:
            ET.SubElement(made, "link", rel=rel, href=href)
    inside = made if tag == "feed" else ET.SubElement(made, "content", type="application/xml")
    inside.extend(contents)
    return made


def element(kind: str) -> ET.Element:
    """An element of Service Bus. Tags in it have no namespaces of their own, as Service Bus writes it."""
    return ET.Element(kind, {"xmlns": SB, "xmlns:i": INSTANCE})


def filled(parent: ET.Element, **texts: str | int | None) -> ET.Element:
    """The same element, with an element in it for each text."""
    for name, text in texts.items():
        if text is not None:
            ET.SubElement(parent, name).text = ILLEGAL.sub("\ufffd", str(text))
    return parent


#: The types of properties: the name of each, how it is written, and the type in Python, of which the first one is used.
VALUES = {
    "boolean": (bool, TRUTH), "long": (int, INTEGER), "int": (int, INTEGER), "double": (float, FLOAT),
    "decimal": (float, FLOAT), "dateTime": (datetime, Kind(instant, _read_instant)),
    "duration": (timedelta, TIME), "string": (object, Kind(str, str)),
}  # fmt: skip


def _pairs(parent: ET.Element, name: str) -> dict[str, Any]:
    found = {}
    for pair in parent.iterfind(f"{name}/KeyValueOfstringanyType"):
        key, value = pair.findtext("Key") or "", pair.find("Value")
        if value is not None:
            _, kind = VALUES.get(value.get(TYPE, "string").rpartition(":")[2], (None, None))
            found[key] = _read(key, kind, value.text or "")
    return found


def _add_pairs(parent: ET.Element, properties: Mapping[str, Any]) -> None:
    for key, value in properties.items():
        name, how = next((name, how) for name, (kind, how) in VALUES.items() if isinstance(value, kind))
        pair = filled(ET.SubElement(parent, "KeyValueOfstringanyType"), Key=key)
        ET.SubElement(pair, "Value", {"i:type": f"l28:{name}", "xmlns:l28": SCHEMA}).text = how.text(value)
