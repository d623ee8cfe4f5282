"""A thread that calls back at deadlines, for drivers that block in C.

One thread serves all calls: to start one for each would take longer than a statement. It wakes ten times a second while
there are calls, and sleeps while there are none, so only the first call after a pause has to wake it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from pgqueue.transports import forking

#: In seconds: a deadline may be noticed so much later.
INTERVAL = 0.1


class Alarm:
    """A callback at a time, in monotonic seconds."""

    def __init__(self, watch: Watch, at: float, callback: Callable[[], None]) -> None:
        self._watch = watch
        self.at = at
        self.callback = callback

    def cancel(self) -> None:
        self._watch.forget(self)


class Watch:
    """Alarms, and the thread that sets them off."""

    def __init__(self) -> None:
        self.reset_after_fork()
        forking.register_for_reset(self)

    def reset_after_fork(self) -> None:
        self._changed = threading.Condition()
        self._alarms: set[Alarm] = set()
        self._is_running = self._is_asleep = False

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Alarm:
        alarm = Alarm(self, time.monotonic() + seconds, callback)
        with self._changed:
            self._alarms.add(alarm)
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="pgqueue-deadlines", daemon=True).start()
            elif self._is_asleep:
                self._is_asleep = False
                self._changed.notify()
        return alarm

    def forget(self, alarm: Alarm) -> None:
        with self._changed:
            self._alarms.discard(alarm)

    def _run(self) -> None:
        while True:
            for alarm in self._due():
                alarm.callback()
            time.sleep(INTERVAL)

    def _due(self) -> list[Alarm]:
        with self._changed:
            self._is_asleep = not self._alarms
            while self._is_asleep:
                self._changed.wait()
            now = time.monotonic()
            due = [alarm for alarm in self._alarms if alarm.at <= now]
            self._alarms.difference_update(due)
        return due


WATCH = Watch()
