"""How figures, times and bodies look in the pages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from pgqueue.dashboard.database import read_json
from pgqueue.model.cipher import MARK

NONE = "–"  # noqa: RUF001 (a dash, as typesetters use it)
UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
#: Bytes of a body that a page shows; the API has all.
LONGEST_BODY = 200_000


def number(value: float | None, *, is_exact: bool = True) -> str:
    """A count with separators; an estimate is marked."""
    if value is None:
        return NONE
    return f"{'' if is_exact or not value else '≈ '}{value:,.0f}"


def rate(value: float | None) -> str:
    """Messages a minute."""
    if value is None:
        return NONE
    return f"{value:,.1f}" if 0 < value < 10 else f"{value:,.0f}"


def duration(seconds: float | timedelta | None) -> str:
    """A time in at most two units: `4m 12s`; below a minute with digits that matter."""
    if seconds is None:
        return NONE
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    rest = round(seconds)
    parts: list[str] = []
    for unit, size in UNITS:
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def moment(value: datetime | str | None) -> str:
    """A time to the second, in UTC, as on every page."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    return NONE if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def cut(text: str | None) -> str:
    """A body, cut where it is too long for a page. The dashboard has no keys for an encrypted one."""
    if text is None:
        return NONE
    if text.startswith(MARK.hex()):
        return "encrypted"
    return text if len(text) <= LONGEST_BODY else f"{text[:LONGEST_BODY]}\n… {len(text):,} characters in all"


def query(**parameters: Any) -> str:
    """The query of a link, without what is empty."""
    return urlencode({name: value for name, value in parameters.items() if value not in {None, ""}})


def details(text: str | None) -> Mapping[str, Any]:
    """The details of an entry of the audit log, or the properties of a message."""
    try:
        found: Mapping[str, Any] = read_json(text or "{}")
    except RecursionError:
        return {"JSON that is nested too deeply": cut(text)}
    return found


def readable(value: Any) -> str:
    """A JSON document on one line."""
    return json.dumps(value, ensure_ascii=False)
