"""Queues, topics, subscriptions and rules in the XML of Service Bus, and as settings of pgqueue."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from pgqueue import CorrelationFilter, RuleProperties, SqlFilter
from pgqueue.gateway import rules
from pgqueue.gateway.conditions import ARGUMENT, Refusal
from pgqueue.gateway.entities import entity_of
from pgqueue.model.arguments import LONGEST
from pgqueue.model.topic import Filter

ATOM = "http://www.w3.org/2005/Atom"
SB = "{http://schemas.microsoft.com/netservices/2010/10/servicebus/connect}"
COUNTS = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"
SCHEMA = "http://www.w3.org/2001/XMLSchema"
TYPE = f"{{{INSTANCE}}}type"

QUEUE, TOPIC, SUBSCRIPTION, RULE = "QueueDescription", "TopicDescription", "SubscriptionDescription", "RuleDescription"

#: How Service Bus writes that there is no limit of time.
FOREVER = "P10675199DT2H48M5.4775807S"

DURATION = re.compile(r"P(?:(\d{1,8})D)?(?:T(?:(\d{1,8})H)?(?:(\d{1,8})M)?(?:(\d{1,8}(?:\.\d+)?)S)?)?")


def instant(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _read_instant(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _write_duration(value: timedelta) -> str:
    seconds = f"{value.seconds % 60}.{value.microseconds:06}".rstrip("0").rstrip(".")
    return f"P{value.days}DT{value.seconds // 3600}H{value.seconds // 60 % 60}M{seconds}S"


def _read_duration(text: str) -> timedelta:
    if (found := DURATION.fullmatch(text)) is None:
        raise ValueError(text)
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


class Kind(NamedTuple):
    """How values are written and read. An optional one is left out where there is none."""

    write: Callable[[Any], str]
    read: Callable[[str], Any]
    is_optional: bool = False

    def text(self, value: Any) -> str | None:
        return None if value is None and self.is_optional else self.write(value)


TIME = Kind(_write_duration, _read_duration)
LIMIT = Kind(
    lambda value: FOREVER if value is None else _write_duration(value),
    lambda text: found if (found := _read_duration(text)) <= LONGEST else None,
)
TRUTH = Kind(lambda value: str(value).lower(), lambda text: {"true": True, "false": False}[text.lower()])
NUMBER = Kind(str, int)
STATUS = Kind(
    lambda value: value.title().replace("_", ""), lambda text: re.sub("(?<=[a-z])(?=[A-Z])", "_", text).upper()
)
ENTITY = Kind(str, entity_of, is_optional=True)
METADATA = Kind(
    lambda value: value if isinstance(value, str) else rules.json_bytes(value).decode(), str, is_optional=True
)
KILOBYTES = Kind(lambda value: str(-(-value // 1024)), lambda text: int(text) * 1024, is_optional=True)

ALL, LASTING, SENT_TO = (QUEUE, TOPIC, SUBSCRIPTION), (QUEUE, SUBSCRIPTION), (QUEUE, TOPIC)

#: The properties of descriptions: which have it, its name, and a setting and its kind, or the only value that holds.
PROPERTIES: tuple[tuple[tuple[str, ...], str, str, Kind | str], ...] = (
    (LASTING, "LockDuration", "lock_duration", TIME),
    (SENT_TO, "MaxSizeInMegabytes", "", "1024"),
    (SENT_TO, "RequiresDuplicateDetection", "requires_duplicate_detection", TRUTH),
    (LASTING, "RequiresSession", "requires_session", TRUTH),
    (ALL, "DefaultMessageTimeToLive", "default_message_time_to_live", LIMIT),
    (LASTING, "DeadLetteringOnMessageExpiration", "dead_lettering_on_message_expiration", TRUTH),
    ((SUBSCRIPTION,), "DeadLetteringOnFilterEvaluationExceptions", "", "false"),
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

#: What Service Bus only reports, and the rule of a new subscription.
REPORTED = {"AccessedAt", "CountDetails", "CreatedAt", "MessageCount", "SizeInBytes", "SubscriptionCount", "UpdatedAt",
            "SqlFilterCount", "CorrelationFilterCount", "DefaultRuleDescription"}  # fmt: skip


def properties_of(kind: str) -> Iterator[tuple[str, str, Kind | str]]:
    """The properties that a description of this kind has."""
    return ((name, setting, how) for of, name, setting, how in PROPERTIES if kind in of)


def kind_of(element: ET.Element) -> str:
    """The name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def content_of(body: bytes) -> ET.Element:
    """The description in an entry. Raises Refusal."""
    try:
        text = body.decode("utf-8-sig")
        if "<!" in text:
            raise Refusal(ARGUMENT, "the entry has a document type, or a comment")
        content = ET.fromstring(text).find(f"{{{ATOM}}}content")  # noqa: S314 - without a document type no entities
    except (ET.ParseError, LookupError, ValueError) as error:
        raise Refusal(ARGUMENT, f"the body is no entry of Atom: {error}") from None
    if content is None or len(content) != 1:
        raise Refusal(ARGUMENT, "the body is no entry of Atom with a content")
    return content[0]


def settings_of(described: ET.Element, former: Any = None) -> dict[str, Any]:
    """The settings in a description, or those that differ from the former ones. Raises Refusal."""
    texts = {kind_of(one): (one.text or "").strip() or "…" * len(one) for one in described}
    found = {}
    for name, setting, kind in properties_of(kind_of(described)):
        text = texts.pop(name, "")
        if isinstance(kind, str):
            if text not in ("", kind):
                raise Refusal(ARGUMENT, f"pgqueue does not have {name}: leave it out, or {kind}")
        elif text or kind.is_optional:
            value = _read(name, kind.read, text) if text else None
            if value is not None if former is None else kind.text(value) != kind.text(getattr(former, setting)):
                found[setting] = value
    if unknown := [name for name, text in texts.items() if text and name not in REPORTED]:
        raise Refusal(ARGUMENT, f"pgqueue does not have {', '.join(unknown)}: leave it out")
    return found


def _read(name: str, read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except (KeyError, ValueError):
        raise Refusal(ARGUMENT, f"{name} cannot be {text!r:.80}") from None


def description(kind: str, properties: Any, runtime: Any, host: str, **more: int) -> ET.Element:
    """The description of a queue, a topic or a subscription. A topic has no messages of its own."""
    made = element(kind)
    for name, setting, how in properties_of(kind):
        text = how if isinstance(how, str) else how.text(getattr(properties, setting))
        if text is not None:
            filled(made, **{name: f"sb://{host}/{text}" if how is ENTITY else text})
    created = instant(getattr(properties, "created_at", None) or datetime.now(UTC))
    active, dead, scheduled, deferred, size = (0,) * 5 if runtime is None else (
        runtime.ready + runtime.locked, runtime.dead_letters, runtime.scheduled, runtime.deferred, runtime.size_in_bytes
    )  # fmt: skip
    filled(made, CreatedAt=created, UpdatedAt=created, AccessedAt=created, SizeInBytes=size,
           MessageCount=active + dead + scheduled + deferred, **more)  # fmt: skip
    each = {"Active": active, "DeadLetter": dead, "Scheduled": scheduled, "Transfer": 0, "TransferDeadLetter": 0}
    filled(ET.SubElement(made, "CountDetails", {"xmlns:n": COUNTS}),
           **{f"n:{name}MessageCount": count for name, count in each.items()})  # fmt: skip
    return made


def rule_of(described: ET.Element) -> tuple[str, dict[str, Any]]:
    """The name of a rule, and its filter and what it sets, as arguments. Raises Refusal."""
    action, properties = described.find(f"{SB}Action"), None
    if action is not None and (sql := action.findtext(f"{SB}SqlExpression")):
        properties = rules.properties_of(sql, _pairs(action, "Parameters"))
    made = {"filter": _filter_of(described.find(f"{SB}Filter")), "set_properties": properties}
    return described.findtext(f"{SB}Name") or "$Default", made


def _filter_of(element: ET.Element | None) -> Filter | None:
    kind = "TrueFilter" if element is None else element.get(TYPE, "").rpartition(":")[2]
    match kind, element:
        case "TrueFilter", _:
            return None
        case "FalseFilter", _:
            return SqlFilter(rules.NEVER)
        case "SqlFilter", ET.Element():
            return rules.filter_of(element.findtext(f"{SB}SqlExpression") or "", _pairs(element, "Parameters"))
        case "CorrelationFilter", ET.Element():
            fields = {ours: element.findtext(f"{SB}{_tag(theirs)}") for theirs, ours in rules.FIELDS.items()}
            return CorrelationFilter(**fields, application_properties=_pairs(element, "Properties") or None)
    raise Refusal(ARGUMENT, f"there is no filter of the type {kind!r}")


def rule_description(rule: RuleProperties) -> ET.Element:
    """The description of a rule."""
    made = element(RULE)
    if isinstance(rule.filter, CorrelationFilter):
        fields = {_tag(theirs): getattr(rule.filter, ours) for theirs, ours in rules.FIELDS.items()}
        filter = filled(ET.SubElement(made, "Filter", {"i:type": "CorrelationFilter"}), **fields)
        _add_pairs(ET.SubElement(filter, "Properties"), rule.filter.application_properties or {})
    else:
        sql = rules.sql_of(rule.filter)
        kind = {rules.ALWAYS: "TrueFilter", rules.NEVER: "FalseFilter"}.get(sql.replace(" ", ""), "SqlFilter")
        filled(ET.SubElement(made, "Filter", {"i:type": kind}), SqlExpression=sql, CompatibilityLevel=20)
    action = ET.SubElement(made, "Action", {"i:type": "SqlRuleAction" if rule.set_properties else "EmptyRuleAction"})
    if rule.set_properties:
        filled(action, SqlExpression=rules.action_of(rule.set_properties), CompatibilityLevel=20)
    return filled(made, CreatedAt=instant(rule.created_at), Name=rule.name)


def entry(name: str, address: str, content: ET.Element) -> ET.Element:
    """An entry with a description."""
    made = _headed("entry", name, address)
    ET.SubElement(made, "content", type="application/xml").append(content)
    return made


def feed(title: str, address: str, entries: list[ET.Element], following: str | None) -> ET.Element:
    """A list of entries, and where it goes on."""
    made = _headed("feed", title, address)
    if following is not None:
        ET.SubElement(made, "link", rel="next", href=following)
    made.extend(entries)
    return made


def _headed(tag: str, title: str, address: str) -> ET.Element:
    now = instant(datetime.now(UTC))
    made = filled(ET.Element(tag, xmlns=ATOM), id=address, title=title, published=now, updated=now)
    ET.SubElement(made, "link", rel="self", href=address)
    return made


def namespace(name: str) -> ET.Element:
    """The description of the namespace, which is a database."""
    begin = instant(datetime(2020, 1, 1, tzinfo=UTC))
    return filled(element("NamespaceInfo"), CreatedTime=begin, ModifiedTime=begin, MessagingSKU="Premium",
                  MessagingUnits=1, Name=name, NamespaceType="Messaging")  # fmt: skip


def error(status: int, text: str) -> ET.Element:
    """The answer to a request that was refused."""
    return filled(ET.Element("Error"), Code=int(status), Detail=text)


def element(kind: str) -> ET.Element:
    """An element of Service Bus. Tags in it have no namespaces of their own, as Service Bus writes it."""
    return ET.Element(kind, {"xmlns": SB.strip("{}"), "xmlns:i": INSTANCE})


def filled(parent: ET.Element, **texts: str | int | None) -> ET.Element:
    """The same element, with an element in it for each text."""
    for name, text in texts.items():
        if text is not None:
            ET.SubElement(parent, name).text = str(text)
    return parent


def _tag(name: str) -> str:
    """A field of a correlation filter, as XML has it: ReplyToSessionId for reply-to-session-id."""
    return "".join(word.capitalize() for word in name.split("-"))


READERS: Mapping[str, Callable[[str], Any]] = {
    "string": str, "int": int, "long": int, "boolean": TRUTH.read, "double": float, "decimal": float,
    "dateTime": _read_instant, "duration": _read_duration,
}  # fmt: skip
WRITERS: Mapping[type, tuple[str, Callable[[Any], str]]] = {
    bool: ("boolean", TRUTH.write), int: ("long", str), float: ("double", str), datetime: ("dateTime", instant),
}  # fmt: skip


def _pairs(parent: ET.Element, name: str) -> dict[str, Any]:
    found = {}
    for pair in parent.iterfind(f"{SB}{name}/{SB}KeyValueOfstringanyType"):
        key, value = pair.findtext(f"{SB}Key") or "", pair.find(f"{SB}Value")
        if value is not None:
            read = READERS.get(value.get(TYPE, "string").rpartition(":")[2], _unknown)
            found[key] = _read(key, read, value.text or "")
    return found


def _unknown(text: str) -> Any:
    raise ValueError(text)


def _add_pairs(parent: ET.Element, properties: Mapping[str, Any]) -> None:
    for key, value in properties.items():
        kind, write = WRITERS.get(type(value), ("string", str))
        pair = filled(ET.SubElement(parent, "KeyValueOfstringanyType"), Key=key)
        ET.SubElement(pair, "Value", {"i:type": f"l28:{kind}", "xmlns:l28": SCHEMA}).text = write(value)
