"""The record of a failed delivery in its message: the error, without the frames of pgqueue and of its libraries."""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.arguments import NO_TEXT, shown

T = TypeVar("T", "DeliveryError", "Resubmission")

#: Of a text the beginning is kept, of a traceback the end: that is its most useful part.
LONGEST_TYPE, LONGEST_TEXT, LONGEST_TRACEBACK = 200, 2_000, 8_000

OURS = f"{Path(__file__).parents[1]}/"
DEMO = f"{OURS}demo/"
STANDARD_LIBRARY = f"{sysconfig.get_path('stdlib')}/"
LIBRARIES = re.compile(r"/site-packages/(psycopg|psycopg_pool|psycopg_binary|sqlalchemy|tenacity)/")


@dataclass(frozen=True)
class DeliveryError:
    """The error that a delivery of a message failed with.

    ``type`` is the class of the exception, ``text`` its message. ``traceback`` has the frames of your own code; None if
    there are none. ``delivery_count`` is the delivery that failed, ``failed_at`` when, by the database's clock, and
    ``locked_by`` names the receiver.
    """

    type: str
    text: str | None
    traceback: str | None
    delivery_count: int
    failed_at: datetime
    locked_by: str | None

    def __str__(self) -> str:
        return titled(self.type, self.text)


@dataclass(frozen=True)
class Resubmission:
    """Where a message was resubmitted from most recently, and what it had died of there.

    ``queue`` is the dead letters' queue. ``reason``, ``description``, ``dead_lettered_at``, ``delivery_count`` and
    ``last_error`` are those of the dead letter. ``times`` counts the resubmissions of this message.
    """

    queue: str
    reason: str
    description: str | None
    dead_lettered_at: datetime
    delivery_count: int
    resubmitted_at: datetime
    times: int
    last_error: DeliveryError | None = None


def resubmission(entry: Mapping[str, Any]) -> Resubmission:
    """A resubmission from its document in the database."""
    times = {name: datetime.fromisoformat(entry[name]) for name in ("dead_lettered_at", "resubmitted_at")}
    last_error = entry.get("last_error")
    return _known(Resubmission, {**entry, **times, "last_error": last_error and delivery_error(last_error)})


def delivery_error(entry: Mapping[str, Any]) -> DeliveryError:
    """An error from its document in the database."""
    return _known(DeliveryError, {**entry, "failed_at": datetime.fromisoformat(entry["failed_at"])})


def _known(kind: type[T], entry: Mapping[str, Any]) -> T:
    """A record from its document, without the fields that a later version of pgqueue has added."""
    return kind(**{each.name: entry[each.name] for each in fields(kind) if each.name in entry})


def error_document(error: Any) -> dict[str, str | None]:
    """An exception as the database is given it.

    Raises:
        InvalidArgumentError: it is no exception.
    """
    if not isinstance(error, BaseException):
        raise InvalidArgumentError(f"error must be an exception, not {shown(error)}")
    return {
        "type": storable(type_of(error))[:LONGEST_TYPE],
        "text": storable(text_of(error))[:LONGEST_TEXT] or None,
        "traceback": storable(traceback_of(error))[-LONGEST_TRACEBACK:] or None,
    }


def type_of(error: BaseException) -> str:
    """The name of an exception's class, with its module unless that is ``builtins``."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def traceback_of(error: BaseException) -> str:
    """The traceback of an exception and its causes, with frames of the user's code only; empty without any."""
    described = traceback.TracebackException.from_exception(error)
    has_frames = _keep_frames_of_the_user(described)
    return "".join(map(_shortened, described.format())) if has_frames else ""


def from_users_code(error: BaseException) -> TracebackType | None:
    """The traceback of an exception from the first frame of the user's code on; None if there is none."""
    following = error.__traceback__
    while following is not None:
        if _is_of_the_user(following.tb_frame.f_code.co_filename, first=True):
            return following
        following = following.tb_next
    return None


def storable(text: str) -> str:
    """The text, with a replacement for what PostgreSQL cannot store."""
    return NO_TEXT.sub("\ufffd", text)


def text_of(error: BaseException) -> str:
    """The text of an exception."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - it is the user's
        return "<message unavailable>"


def titled(kind: str, text: str | None) -> str:
    """An error in a line: its type, and its text if it has one."""
    return f"{kind}: {text}" if text else kind


def _shortened(piece: str) -> str:
    """A piece of a traceback: a frame, or the text of an exception, which must leave room for the frames before it."""
    return piece if len(piece) <= LONGEST_TEXT else f"{piece[:LONGEST_TEXT]}…\n"


def _keep_frames_of_the_user(described: traceback.TracebackException) -> bool:
    """Remove all other frames; return whether any is left. A chain of causes may be longer than the stack is deep."""
    is_left, waiting = False, [described]
    while waiting:
        each = waiting.pop()
        each.stack = traceback.StackSummary.from_list(_frames_of_the_user(each.stack))
        is_left = is_left or bool(each.stack)
        related = (each.__cause__, each.__context__, *(each.exceptions or ()))
        waiting += [one for one in related if one is not None]
    return is_left


def _frames_of_the_user(stack: Sequence[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    kept: list[traceback.FrameSummary] = []
    for frame in stack:
        if _is_of_the_user(frame.filename, first=not kept):
            kept.append(frame)
    return kept


def _is_of_the_user(file: str, *, first: bool) -> bool:
    """Whether a frame is of the user's code; what threads and event loops begin with is not."""
    if file.startswith(OURS):
        return file.startswith(DEMO)
    if file.startswith("<frozen ") or LIBRARIES.search(file):
        return False
    return not (first and file.startswith(STANDARD_LIBRARY) and "/site-packages/" not in file)
