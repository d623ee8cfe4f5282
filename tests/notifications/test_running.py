"""A transmitter that runs for long: it waits, it is stopped, it outlives a connection."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from pgqueue.errors import ConnectionLostError
from pgqueue.flows import Flow
from pgqueue.notifications import Pace, Processed
from tests.contract.interpreter import meant
from tests.notifications.place import MINUTE, OK, PENDING, Order, Place
from tests.patience import PATIENCE, eventually


@contextmanager
def running(transmitter: Any) -> Iterator[list[Processed]]:
    """Runs it in a thread while the block lasts; then it is stopped, and what it did is in the list."""
    done: list[Processed] = []
    thread = threading.Thread(target=lambda: done.append(transmitter.run()))
    thread.start()
    try:
        yield done
    finally:
        meant(transmitter).stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.mark.core
def test_a_running_transmitter_sends_new_notifications_and_stops_on_request(place: Place) -> None:
    transmitter, seen = place.told(OK)
    with running(transmitter) as done:
        for number in range(3):
            transmitter.notify_all(Order(number))
        eventually(lambda: len(seen) == 3)
        eventually(lambda: place.found() == [])
        assert done == []
    assert done == [Processed(removed=3)]
    assert [order.number for order in seen] == [0, 1, 2]


def test_a_pending_notification_is_sent_again_after_its_pause(place: Place) -> None:
    transmitter, seen = place.told(PENDING, PENDING, OK, pace=Pace(timedelta(seconds=0.2), 2.0, MINUTE))
    with running(transmitter) as done:
        transmitter.notify_all(Order())
        eventually(lambda: place.found() == [])
    assert done == [Processed(removed=1, kept=2)]
    assert len(seen) == 3


def test_one_that_was_stopped_before_does_not_run(place: Place) -> None:
    transmitter, seen = place.told(OK)
    meant(transmitter).stop()
    transmitter.notify_all(Order())
    assert transmitter.run() == Processed()
    assert seen == []


@pytest.mark.parametrize("with_transaction", [False, True], ids=["alone", "with a transaction"])
def test_a_lost_connection_is_outlived(place: Place, with_transaction: bool) -> None:
    transmitter, told = place.transmitter(), []

    def recipient(order: Any) -> Any:
        told.append(order.number)
        return OK

    def taking_part(order: Any, transaction: Any) -> Any:
        transaction.execute("select 1")
        return recipient(order)

    transmitter.register(place.recipient(taking_part if with_transaction else recipient))
    with running(transmitter) as done:
        transmitter.notify_all(Order(1))
        eventually(lambda: told == [1] and place.found() == [])
        place.run(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and application_name ~ '^pgqueue( worker .*)?$'"
        )
        eventually(lambda: sent(transmitter))
        eventually(lambda: set(told) == {1, 2})
        eventually(lambda: place.found() == [])
    assert done[0].removed == 2


class Outage:
    """A database that cannot be reached for the next few statements."""

    def __init__(self, inner: Any, failures: int) -> None:
        self._inner = inner
        self.failures = failures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def execute(self, statement: Any) -> Flow[Any]:
        if self.failures > 0:
            self.failures -= 1
            raise ConnectionLostError("nobody there")
        return self._inner.execute(statement)  # type: ignore[no-any-return]


def test_a_running_transmitter_waits_out_an_outage_and_a_single_call_raises(place: Place) -> None:
    transmitter, _ = place.told(OK)
    processing = meant(transmitter)._processing
    transmitter.notify_all(Order())
    processing.source = outage = Outage(processing.source, failures=1)
    with pytest.raises(ConnectionLostError):
        transmitter.process_pending()
    outage.failures = 3
    with running(transmitter) as done:
        eventually(lambda: place.found() == [])
    assert done == [Processed(removed=1)]
    assert outage.failures == 0


def sent(transmitter: Any) -> bool:
    """The sender's own connection may be among those that were lost."""
    try:
        transmitter.notify_all(Order(2))
    except Exception:  # noqa: BLE001 - whatever a connection dies of
        return False
    return True


def test_the_lock_is_kept_while_a_recipient_takes_its_time(place: Place) -> None:
    place.client.update_queue(place.name, lock_duration=timedelta(seconds=1))
    transmitter, told = place.transmitter(), []

    def slowly(order: Any) -> Any:
        told.append(order.number)
        time.sleep(2.5)
        return OK

    transmitter.register(place.recipient(slowly))
    other, seen = place.told(OK)
    transmitter.notify_all(Order(1))
    with running(transmitter) as done:
        eventually(lambda: told)
        with running(other):
            eventually(lambda: place.found() == [])
    assert (told, seen) == ([1], [])
    assert done == [Processed(removed=1)]


def test_the_lock_of_one_that_could_not_be_settled_is_not_kept(place: Place) -> None:
    place.client.update_queue(place.name, lock_duration=timedelta(seconds=1))

    def write_what_is_not_json(order: Any) -> Any:
        order.state = object()
        return PENDING

    transmitter, seen = place.told(write_what_is_not_json, OK)
    transmitter.notify_all(Order())
    with running(transmitter) as done:
        eventually(lambda: place.found() == [])
    assert done == [Processed(lost=1, removed=1)]
    assert len(seen) == 2
