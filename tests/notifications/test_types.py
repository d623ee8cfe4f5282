"""Types of notifications, as message bodies and back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from pgqueue.errors import InvalidArgumentError
from pgqueue.notifications import Notification, NotificationTypes, Pace, QueueNotification

SOON = datetime(2031, 4, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.fixture
def types() -> NotificationTypes:
    return NotificationTypes()


def there_and_back(types: NotificationTypes, notification: QueueNotification) -> Any:
    body = types.to_body(notification)
    assert json.loads(json.dumps(body)) == body
    back = types.from_body(body)
    assert type(back) is type(notification)
    return back


@pytest.mark.core
def test_a_dataclass(types: NotificationTypes) -> None:
    @types.register("lamp")
    @dataclass
    class Lamp(QueueNotification):
        watts: int
        rooms: list[str] = field(default_factory=list)

    lamp = Lamp(40, ["hall"])
    assert there_and_back(types, lamp) == lamp
    body = types.to_body(lamp)
    assert (body["notification"], body["version"], body["data"]) == ("lamp", 1, {"watts": 40, "rooms": ["hall"]})


@pytest.mark.core
def test_a_pydantic_model_keeps_what_json_has_not(types: NotificationTypes) -> None:
    @types.register("payment", version=3)
    class Payment(QueueNotification, BaseModel):
        amount: Decimal
        due: date

    payment = Payment(amount=Decimal("9.90"), due=date(2031, 4, 1))
    payment.state = {"operation": 7}
    payment.expires_at = SOON
    body = types.to_body(payment)
    assert (body["version"], body["data"]) == (3, {"amount": "9.90", "due": "2031-04-01"})
    back = there_and_back(types, payment)
    assert (back.amount, back.due) == (payment.amount, payment.due)
    assert (back.state, back.expires_at) == ({"operation": 7}, SOON)


def test_a_pydantic_model_whichever_base_comes_first(types: NotificationTypes) -> None:
    @types.register("payment")
    class Payment(BaseModel, QueueNotification):
        amount: int

    payment = Payment(amount=1)
    payment.complete = True
    assert there_and_back(types, payment).is_complete


def test_a_class_with_ways_of_its_own(types: NotificationTypes) -> None:
    @types.register("reading")
    class Reading(QueueNotification):
        def __init__(self, celsius: float) -> None:
            self.celsius = celsius

        def to_body(self) -> dict[str, Any]:
            return {"c": self.celsius}

        @classmethod
        def from_body(cls, data: dict[str, Any]) -> Reading:
            return cls(data["c"])

    assert there_and_back(types, Reading(21.5)).celsius == 21.5
    assert types.to_body(Reading(21.5))["data"] == {"c": 21.5}


def test_the_memory_goes_with_it(types: NotificationTypes) -> None:
    @types.register("lamp")
    @dataclass
    class Lamp(QueueNotification):
        watts: int = 40

    lamp = Lamp()
    assert (lamp.complete, lamp.state, lamp.attempts, lamp.expires_at, lamp.created_at) == (False, None, 0, None, None)
    lamp.state, lamp.complete, lamp.attempts, lamp.expires_at = ["on", 1], True, 4, SOON
    back = there_and_back(types, lamp)
    assert (back.state, back.complete, back.is_complete, back.attempts) == (["on", 1], True, True, 4)
    assert back.expires_at == SOON
    assert Lamp().state is None, "each has a memory of its own"


def test_a_time_without_a_zone_is_refused(types: NotificationTypes) -> None:
    @dataclass
    class Lamp(QueueNotification):
        pass

    lamp = Lamp()
    for wrong in (datetime(2031, 4, 1), "tomorrow", 60):  # noqa: DTZ001 - that is what is refused
        with pytest.raises(InvalidArgumentError, match="aware"):
            lamp.expires_at = wrong  # type: ignore[assignment]
    lamp.expires_at = SOON
    lamp.expires_at = None


def test_an_older_version_is_brought_up_step_by_step(types: NotificationTypes) -> None:
    @types.register("lamp", version=3)
    @dataclass
    class Lamp(QueueNotification):
        milliwatts: int
        room: str

    @types.upgrade("lamp", from_version=1)
    def in_milliwatts(data: dict[str, Any]) -> dict[str, Any]:
        return {"milliwatts": data["watts"] * 1000}

    @types.upgrade("lamp", from_version=2)
    def with_a_room(data: dict[str, Any]) -> dict[str, Any]:
        return {**data, "room": "hall"}

    one = types.from_body({"notification": "lamp", "version": 1, "data": {"watts": 40}, "state": "on"})
    two = types.from_body({"notification": "lamp", "version": 2, "data": {"milliwatts": 5}})
    assert one == Lamp(40_000, "hall")
    assert one is not None
    assert one.state == "on"
    assert two == Lamp(5, "hall")


def test_an_older_version_without_a_way_up_and_a_newer_one_are_not_known(types: NotificationTypes) -> None:
    @types.register("lamp", version=3)
    @dataclass
    class Lamp(QueueNotification):
        watts: int

    types.upgrade("lamp", from_version=2)(lambda data: data)
    known = {version: types.from_body({"notification": "lamp", "version": version, "data": {"watts": 1}})
             for version in range(5)}  # fmt: skip
    assert {version for version, lamp in known.items() if lamp is not None} == {2, 3}


@pytest.mark.parametrize(
    "body",
    [None, "text", b"bytes", 7, [], {}, {"notification": "other", "version": 1, "data": {}}, {"notification": None}],
    ids=str,
)
def test_a_message_that_is_no_notification_of_ours_is_not_known(types: NotificationTypes, body: Any) -> None:
    types.register("lamp")(dataclass(type("Lamp", (QueueNotification,), {})))
    assert types.from_body(body) is None


def test_data_that_do_not_fit_raise_the_error_of_the_type(types: NotificationTypes) -> None:
    @types.register("model")
    class Model(QueueNotification, BaseModel):
        watts: int

    @types.register("plain")
    @dataclass
    class Plain(QueueNotification):
        watts: int

    with pytest.raises(ValidationError):
        types.from_body({"notification": "model", "version": 1, "data": {"watts": "many"}})
    with pytest.raises(TypeError):
        types.from_body({"notification": "plain", "version": 1, "data": {"volts": 230}})


@pytest.mark.parametrize(
    "memory",
    [
        {"expires_at": "tomorrow"},
        {"expires_at": "2031-04-01T12:00:00"},
        {"time_to_live": "long"},
        {"time_to_live": 1e300},
        {"attempts": "x"},
        {"forwarded": 7},
    ],
    ids=str,
)
def test_a_memory_that_none_of_us_wrote_is_refused(types: NotificationTypes, memory: dict[str, Any]) -> None:
    types.register("lamp")(dataclass(type("Lamp", (QueueNotification,), {})))
    with pytest.raises(ValueError, match="memory"):
        types.from_body({"notification": "lamp", "version": 1, "data": {}, **memory})


def test_an_unregistered_type_is_refused_by_name(types: NotificationTypes) -> None:
    @dataclass
    class Stray(QueueNotification):
        pass

    assert not types.knows(Stray())
    with pytest.raises(InvalidArgumentError, match="Stray is not registered"):
        types.to_body(Stray())


def test_a_subclass_is_a_type_of_its_own(types: NotificationTypes) -> None:
    @types.register("lamp")
    @dataclass
    class Lamp(QueueNotification):
        pass

    class Lantern(Lamp):
        pass

    assert types.knows(Lamp())
    assert not types.knows(Lantern())


def test_types_that_cannot_be_registered_are_refused_by_name(types: NotificationTypes) -> None:
    @types.register("lamp")
    @dataclass
    class Lamp(QueueNotification):
        pass

    class Bare(QueueNotification):
        pass

    @dataclass
    class Unqueued(Notification):
        pass

    with pytest.raises(InvalidArgumentError, match="'lamp' is registered already"):
        types.register("lamp")(Lamp)
    for stray in (Bare, Unqueued):
        with pytest.raises(InvalidArgumentError, match=stray.__name__):
            types.register("other")(stray)  # type: ignore[type-var]
    with pytest.raises(InvalidArgumentError, match="version"):
        types.register("other", version=0)
    for name in ("lamp", "nobody"):
        with pytest.raises(InvalidArgumentError, match=name):
            types.upgrade(name, from_version=1)
    with pytest.raises(InvalidArgumentError, match="from_version must be 1 or more"):
        types.upgrade("lamp", from_version=0)


@pytest.mark.parametrize("name", ["state", "complete", "attempts", "expires_at", "created_at", "timed_out"])
def test_a_field_may_not_hide_what_every_notification_has(types: NotificationTypes, name: str) -> None:
    hiding: Any = dataclass(type("Hiding", (QueueNotification,), {"__annotations__": {name: "str"}}))
    with pytest.raises(InvalidArgumentError, match=f"field '{name}'"):
        types.register("hiding")(hiding)


def test_a_pace_is_exponential_up_to_its_longest() -> None:
    pace = Pace(SECOND, 3.0, timedelta(minutes=1))
    assert [pace.rest(attempts).total_seconds() for attempts in range(1, 7)] == [1, 3, 9, 27, 60, 60]
    assert Pace().rest(10_000) == timedelta(minutes=5)
    assert Pace(SECOND, 1.0, SECOND).rest(10_000) == SECOND


def test_an_unready_notification_is_polled_less_and_less_often() -> None:
    pace = Pace(SECOND, 2.0, timedelta(minutes=1))
    age, asked = timedelta(0), 0
    while age < timedelta(minutes=10):
        age, asked = age + pace.rest_unready(age), asked + 1
    assert asked == 6 + 9
    assert pace.rest_unready(-SECOND) == SECOND


@pytest.mark.parametrize("wrong", [{"base": timedelta(0)}, {"factor": 0.5}, {"longest": timedelta(milliseconds=1)}])
def test_a_pace_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="pace"):
        Pace(**wrong)
