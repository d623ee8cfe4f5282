"""A process whose clock is wrong: all that Python gives of the time of day is off. The monotonic clock is right."""

from __future__ import annotations

import sys
import time
from datetime import datetime, timedelta, tzinfo
from typing import Any, ClassVar


class _IsAny(type):
    """All instances of ``datetime`` count as its instances."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, datetime)


class WrongDatetime(datetime, metaclass=_IsAny):
    """In place of ``datetime``: ``now`` is wrong; the rest is as ever."""

    error: ClassVar[timedelta]

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        return datetime(*arguments, **named)  # noqa: DTZ001 (the caller's)

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Any:
        return datetime.now(tz) + cls.error


def set_wrong(error: timedelta) -> None:
    """Let the clock of this process be wrong by so much, in all modules that were imported."""
    right, right_in_ns = time.time, time.time_ns
    WrongDatetime.error = error
    wrong = {
        id(datetime): WrongDatetime,
        id(right): lambda: right() + error.total_seconds(),
        id(right_in_ns): lambda: right_in_ns() + error // timedelta(microseconds=1) * 1000,
    }
    for name, module in list(sys.modules.items()):
        if name in (__name__, "datetime", "_datetime"):
            continue
        for attribute, value in list(vars(module).items()):
            if id(value) in wrong:
                setattr(module, attribute, wrong[id(value)])
