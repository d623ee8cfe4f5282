"""Queues, topics, subscriptions and rules in the XML of Service Bus, and as settings of pgqueue."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
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
SB = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
COUNTS = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"
SCHEMA = "http://www.w3.org/2001/XMLSchema"
TYPE = f"{{{INSTANCE}}}type"

#: The attributes of a description. Its tags have no namespaces of their own, as Service Bus writes it.
NAMESPACES = {"xmlns": SB, "xmlns:i": INSTANCE}

#: How Service Bus writes that there is no limit of time.
FOREVER = "P10675199DT2H48M5.4775807S"

DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")

KILOBYTE = 1024


class Kind(NamedTuple):
    """How values of a setting are written and read."""

    write: Callable[[Any], str]
    read: Callable[[str], Any]


def _write_duration(value: timedelta | None) -> str:
    if value is None:
        return FOREVER
    seconds = f"{value.seconds % 60}.{value.microseconds:06}".rstrip("0").rstrip(".")
    return f"P{value.days}DT{value.seconds // 3600}H{value.seconds // 60 % 60}M{seconds}S"


def _read_duration(text: str) -> timedelta | None:
    found = DURATION.fullmatch(text)
    if found is None:
        raise Refusal(ARGUMENT, f"{text!r} is no duration of ISO 8601, such as PT5M")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    total = 86_400 * days + 3600 * hours + 60 * minutes + seconds
    return None if total > LONGEST.total_seconds() else timedelta(seconds=total)


def _read_truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise Refusal(ARGUMENT, f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _read_number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Refusal(ARGUMENT, f"{text!r} is no number")
    return int(text)


STATUSES = {
    "ACTIVE": "Active",
    "DISABLED": "Disabled",
    "SEND_DISABLED": "SendDisabled",
    "RECEIVE_DISABLED": "ReceiveDisabled",
}


def _read_status(text: str) -> str:
    known = {theirs: ours for ours, theirs in STATUSES.items()}
    if text not in known:
        raise Refusal(ARGUMENT, f"the status is one of {', '.join(known)}, not {text!r}")
    return known[text]


def _write_metadata(value: Any) -> str:
    return value if isinstance(value, str) else rules.json_bytes(value).decode()


TIME = Kind(_write_duration, _read_duration)
TRUTH = Kind(lambda value: str(value).lower(), _read_truth)
NUMBER = Kind(str, _read_number)
STATUS = Kind(lambda value: STATUSES.get(str(value), str(value)), _read_status)
ENTITY = Kind(str, lambda text: entity_of(text) or None)
METADATA = Kind(_write_metadata, str)
KILOBYTES = Kind(lambda value: str(-(-value // KILOBYTE)), lambda text: _read_number(text) * KILOBYTE)

#: The settings of queues and subscriptions, as Service Bus names them, and as pgqueue does.
OF_SUBSCRIPTIONS: dict[str, tuple[str, Kind]] = {
    "LockDuration": ("lock_duration", TIME),
    "RequiresSession": ("requires_session", TRUTH),
    "DefaultMessageTimeToLive": ("default_message_time_to_live", TIME),
    "DeadLetteringOnMessageExpiration": ("dead_lettering_on_message_expiration", TRUTH),
    "MaxDeliveryCount": ("max_delivery_count", NUMBER),
    "Status": ("status", STATUS),
    "ForwardTo": ("forward_to", ENTITY),
    "ForwardDeadLetteredMessagesTo": ("forward_dead_lettered_messages_to", ENTITY),
    "UserMetadata": ("user_metadata", METADATA),
    "AutoDeleteOnIdle": ("auto_delete_on_idle", TIME),
}
OF_QUEUES: dict[str, tuple[str, Kind]] = OF_SUBSCRIPTIONS | {
    "RequiresDuplicateDetection": ("requires_duplicate_detection", TRUTH),
    "DuplicateDetectionHistoryTimeWindow": ("duplicate_detection_history_time_window", TIME),
    "MaxMessageSizeInKilobytes": ("max_message_size", KILOBYTES),
}
OF_TOPICS: dict[str, tuple[str, Kind]] = {
    name: OF_QUEUES[name]
    for name in (
        "DefaultMessageTimeToLive", "RequiresDuplicateDetection", "DuplicateDetectionHistoryTimeWindow", "Status",
        "UserMetadata",
    )
}  # fmt: skip

#: Settings that pgqueue does not have, and the only value that it accepts for each.
CONSTANTS = {
    "EnableBatchedOperations": "true",
    "EnableExpress": "false",
    "EnablePartitioning": "false",
    "FilteringMessagesBeforePublishing": "false",
    "IsAnonymousAccessible": "false",
    "MaxSizeInMegabytes": "1024",
    "DeadLetteringOnFilterEvaluationExceptions": "false",
    "SupportOrdering": "true",
    "EntityAvailabilityStatus": "Available",
}
#: Of these, what each kind shows.
SHOWN = {
    "QueueDescription": (
        "MaxSizeInMegabytes", "EnableBatchedOperations", "EnablePartitioning", "EnableExpress", "SupportOrdering",
        "IsAnonymousAccessible", "EntityAvailabilityStatus",
    ),
    "TopicDescription": (
        "MaxSizeInMegabytes", "EnableBatchedOperations", "EnablePartitioning", "EnableExpress", "SupportOrdering",
        "FilteringMessagesBeforePublishing", "IsAnonymousAccessible", "EntityAvailabilityStatus",
    ),
    "SubscriptionDescription": (
        "EnableBatchedOperations", "DeadLetteringOnFilterEvaluationExceptions", "EntityAvailabilityStatus",
    ),
}  # fmt: skip
#: What Service Bus only reports.
REPORTED = {
    "AccessedAt", "CountDetails", "CreatedAt", "DefaultRuleDescription", "MessageCount", "SizeInBytes",
    "SubscriptionCount", "UpdatedAt",
}  # fmt: skip
SETTINGS = {"QueueDescription": OF_QUEUES, "TopicDescription": OF_TOPICS, "SubscriptionDescription": OF_SUBSCRIPTIONS}


def content_of(body: bytes) -> tuple[str, ET.Element]:
    """The kind of the content of an entry, and its element. Raises Refusal."""
    try:
        text = body.decode("utf-8-sig")
        if "<!" in text:
            raise Refusal(ARGUMENT, "the entry has a document type, or a comment")
        entry = ET.fromstring(text)  # noqa: S314 - entities need a document type, which was refused
    except (ET.ParseError, LookupError, ValueError) as error:
        raise Refusal(ARGUMENT, f"the body is no entry of Atom: {error}") from None
    content = entry.find(f"{{{ATOM}}}content")
    if content is None or len(content) != 1:
        raise Refusal(ARGUMENT, "the body is no entry of Atom with a content")
    return content[0].tag.rpartition("}")[2], content[0]


def settings_of(kind: str, described: ET.Element) -> dict[str, Any]:
    """The settings that a description has. Raises Refusal for those that pgqueue does not have."""
    known, found = SETTINGS[kind], {}
    for element in described:
        name, text = element.tag.rpartition("}")[2], (element.text or "").strip()
        if name in known:
            setting, how = known[name]
            found[setting] = how.read(text) if text else None
        elif name in CONSTANTS:
            if text and text != CONSTANTS[name]:
                raise Refusal(ARGUMENT, f"pgqueue does not have {name}: leave it out, or {CONSTANTS[name]}")
        elif name not in REPORTED and (text or len(element)):
            raise Refusal(ARGUMENT, f"pgqueue does not have {name}: leave it out")
    return found


def as_read(setting: str, value: Any) -> Any:
    """A setting as a client sends it back that was shown this value."""
    how = next(how for name, how in OF_QUEUES.values() if name == setting)
    return None if value is None else how.read(how.write(value))


def description(kind: str, properties: Any, runtime: Any, **more: Any) -> ET.Element:
    """The description of a queue, a topic or a subscription."""
    described = ET.Element(kind, NAMESPACES)
    for name, (setting, how) in SETTINGS[kind].items():
        value = getattr(properties, setting)
        if value is not None or how is TIME:
            _add(described, name, how.write(value))
    for name in SHOWN[kind]:
        _add(described, name, CONSTANTS[name])
    created = getattr(properties, "created_at", None) or datetime.now(UTC)
    for name in ("CreatedAt", "UpdatedAt", "AccessedAt"):
        _add(described, name, _instant(created))
    for name, value in more.items():
        _add(described, name, str(value))
    if runtime is not None:
        active = runtime.ready + runtime.locked
        counts = {"Active": active, "DeadLetter": runtime.dead_letters, "Scheduled": runtime.scheduled, "Transfer": 0,
                  "TransferDeadLetter": 0}  # fmt: skip
        _add(described, "MessageCount", str(active + runtime.deferred + runtime.scheduled + runtime.dead_letters))
        _add(described, "SizeInBytes", str(runtime.size_in_bytes))
        details = ET.SubElement(described, "CountDetails", {"xmlns:d2p1": COUNTS})
        for name, count in counts.items():
            ET.SubElement(details, f"d2p1:{name}MessageCount").text = str(count)
    return described


def rule_of(described: ET.Element) -> tuple[str, Filter | None, dict[str, Any] | None]:
    """The name of a rule, its filter and what it sets. Raises Refusal."""
    filter, action = described.find(f"{{{SB}}}Filter"), described.find(f"{{{SB}}}Action")
    name = described.findtext(f"{{{SB}}}Name") or "$Default"
    expression = None if action is None else action.findtext(f"{{{SB}}}SqlExpression")
    return name, _filter_of(filter), rules.properties_of(expression) if expression else None


def _filter_of(element: ET.Element | None) -> Filter | None:
    kind = "TrueFilter" if element is None else element.get(TYPE, "").rpartition(":")[2]
    match kind, element:
        case "TrueFilter", _:
            return None
        case "FalseFilter", _:
            return SqlFilter(rules.NEVER)
        case "SqlFilter", ET.Element():
            return rules.filter_of(element.findtext(f"{{{SB}}}SqlExpression") or "", _pairs(element, "Parameters"))
        case "CorrelationFilter", ET.Element():
            fields = {ours: element.findtext(f"{{{SB}}}{_tag(theirs)}") for theirs, ours in rules.FIELDS.items()}
            return CorrelationFilter(**fields, application_properties=_pairs(element, "Properties") or None)
    raise Refusal(ARGUMENT, f"there is no filter of the type {kind!r}")


def rule_description(rule: RuleProperties) -> ET.Element:
    """The description of a rule."""
    described = ET.Element("RuleDescription", NAMESPACES)
    filter = ET.SubElement(described, "Filter")
    if isinstance(rule.filter, CorrelationFilter):
        filter.set("i:type", "CorrelationFilter")
        for theirs, ours in rules.FIELDS.items():
            if (value := getattr(rule.filter, ours)) is not None:
                _add(filter, _tag(theirs), value)
        _add_pairs(ET.SubElement(filter, "Properties"), rule.filter.application_properties or {})
    else:
        sql = rules.sql_of(rule.filter)
        filter.set(
            TYPE, {rules.ALWAYS: "TrueFilter", rules.NEVER: "FalseFilter"}.get(sql.replace(" ", ""), "SqlFilter")
        )
        _add(filter, "SqlExpression", sql)
        _add(filter, "CompatibilityLevel", "20")
    action = ET.SubElement(described, "Action")
    action.set("i:type", "SqlRuleAction" if rule.set_properties else "EmptyRuleAction")
    if rule.set_properties:
        _add(action, "SqlExpression", rules.action_of(rule.set_properties))
        _add(action, "CompatibilityLevel", "20")
    _add(described, "CreatedAt", _instant(rule.created_at))
    _add(described, "Name", rule.name)
    return described


def entry(name: str, address: str, content: ET.Element) -> ET.Element:
    """An entry with a description."""
    made = ET.Element("entry", xmlns=ATOM)
    now = _instant(datetime.now(UTC))
    for tag, text in {"id": address, "title": name, "published": now, "updated": now}.items():
        ET.SubElement(made, tag).text = text
    ET.SubElement(made, "link", rel="self", href=address)
    ET.SubElement(made, "content", type="application/xml").append(content)
    return made


def feed(title: str, address: str, entries: Iterable[ET.Element], following: str | None) -> ET.Element:
    """A list of entries, and where it goes on."""
    made = ET.Element("feed", xmlns=ATOM)
    ET.SubElement(made, "title", type="text").text = title
    ET.SubElement(made, "id").text = address
    ET.SubElement(made, "updated").text = _instant(datetime.now(UTC))
    ET.SubElement(made, "link", rel="self", href=address)
    if following is not None:
        ET.SubElement(made, "link", rel="next", href=following)
    made.extend(entries)
    return made


def element(kind: str, **texts: str) -> ET.Element:
    """An element of Service Bus with texts."""
    made = ET.Element(kind, NAMESPACES)
    for name, text in texts.items():
        _add(made, name, text)
    return made


def error(status: int, text: str) -> bytes:
    """The body of the answer to a request that was refused."""
    made = ET.Element("Error")
    ET.SubElement(made, "Code").text = str(status)
    ET.SubElement(made, "Detail").text = text
    return ET.tostring(made)


def _add(parent: ET.Element, name: str, text: str) -> None:
    ET.SubElement(parent, name).text = text


def _tag(name: str) -> str:
    """A field of a correlation filter, as XML has it: ReplyToSessionId for reply-to-session-id."""
    return "".join(word.capitalize() for word in name.split("-"))


def _instant(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


PAIR, KEY, VALUE = f"{{{SB}}}KeyValueOfstringanyType", f"{{{SB}}}Key", f"{{{SB}}}Value"
READERS: Mapping[str, Callable[[str], Any]] = {
    "string": str, "int": int, "long": int, "boolean": _read_truth, "double": float, "decimal": float,
    "dateTime": datetime.fromisoformat, "duration": _read_duration,
}  # fmt: skip


def _pairs(parent: ET.Element, name: str) -> dict[str, Any]:
    found = {}
    for pair in parent.iterfind(f"{{{SB}}}{name}/{PAIR}"):
        key, value = pair.findtext(KEY) or "", pair.find(VALUE)
        text, kind = (
            ("", "string") if value is None else (value.text or "", value.get(TYPE, "string").rpartition(":")[2])
        )
        try:
            found[key] = READERS[kind](text)
        except (KeyError, ValueError):
            raise Refusal(ARGUMENT, f"{key} is no {kind}: {text!r:.80}") from None
    return found


def _add_pairs(parent: ET.Element, properties: Mapping[str, Any]) -> None:
    kinds = {bool: "boolean", int: "long", float: "double", datetime: "dateTime"}
    for key, value in properties.items():
        pair = ET.SubElement(parent, "KeyValueOfstringanyType")
        ET.SubElement(pair, "Key").text = key
        kind = kinds.get(type(value), "string")
        given = ET.SubElement(pair, "Value", {"i:type": f"l28:{kind}", "xmlns:l28": SCHEMA})
        given.text = (
            _instant(value) if isinstance(value, datetime) else TRUTH.write(value) if kind == "boolean" else str(value)
        )
