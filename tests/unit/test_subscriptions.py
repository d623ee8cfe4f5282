"""When a listener looks at the subscription to a queue, and when that has ended."""

from __future__ import annotations

import pytest

from pgqueue.transports.notify_listener import MUTED_FOR, RENEWED_BEFORE, SUBSCRIBED_FOR, Subscription
from pgqueue.transports.wake_signals import WakeSignal


@pytest.fixture
def subscription() -> Subscription:
    return Subscription(WakeSignal("q", lambda: None))


def test_a_subscription_without_consumers_is_live_until_its_end(subscription: Subscription) -> None:
    subscription.renew(100)
    end = 100 + SUBSCRIBED_FOR
    assert subscription.look_at(end - 1) == end
    assert subscription.wake_signal.is_live
    assert subscription.look_at(end) == float("inf")
    assert not subscription.wake_signal.is_live


def test_an_awaited_subscription_is_renewed_before_its_end(subscription: Subscription) -> None:
    with subscription.wake_signal.calling(lambda: None, 0):
        subscription.renew(100)
        renewal = 100 + SUBSCRIBED_FOR - RENEWED_BEFORE
        assert subscription.look_at(101) == renewal
        assert [subscription.is_due(now) for now in (renewal - 1, renewal)] == [False, True]


def test_a_muted_subscription_is_not_due_before_its_pause_has_passed(subscription: Subscription) -> None:
    with subscription.wake_signal.calling(lambda: None, 0):
        subscription.renew(100)
        subscription.mute(101)
        assert not subscription.wake_signal.is_live
        assert subscription.look_at(101) == 101 + MUTED_FOR
        assert [subscription.is_due(now) for now in (101, 101 + MUTED_FOR)] == [False, True]
