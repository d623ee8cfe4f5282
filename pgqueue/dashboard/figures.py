"""The figures of all queues, read together, and no more often than their cost allows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from pgqueue.dashboard.database import Database
from pgqueue.errors import PGQueueError, logger

QUEUES: Final = """
with recent as materialized (
    select *, ready + locked + scheduled + deferred + dead_letters as total
      from pgqueue.samples
     where sampled_at > pgqueue.clock() - interval '5 minutes'
), rates as (
    select queue, avg(settled)::float8 as settled,
           case when bool_and(is_exact) and count(settled) > 1
                then greatest(0, avg(settled) + 60 / extract(epoch from max(sampled_at) - min(sampled_at))
                            * ((array_agg(total order by sampled_at desc))[1]
                               - (array_agg(total order by sampled_at))[1]))
                end::float8 as sent
      from recent
     group by queue
), times as (
    select distinct on (queue) queue, waited, worked
      from recent
     where waited is not null
     order by queue, sampled_at desc)
select name, status, paused_at, ready, locked, scheduled, deferred, expired, exhausted, dead_letters, is_exact,
       extract(epoch from oldest_age)::float8 as oldest_age, sent, settled, waited, worked
  from pgqueue.queues
  left join rates on rates.queue = name
  left join times on times.queue = name
"""

HOLDERS: Final = """
select coalesce(locked_by, '') as holder, queue,
       count(*) filter (where locked_until > pgqueue.clock()) as held,
       count(*) filter (where has_lock and (locked_until is null or locked_until <= pgqueue.clock())) as expired,
       min(locked_until) filter (where locked_until > pgqueue.clock()) as next_expiry,
       max(delivery_count) as deliveries
  from pgqueue._held_message
 where has_lock
 group by locked_by, queue
 order by held desc, holder, queue
 limit 10000
"""

#: The share of a core that reading figures may take: for a request, and in the background.
ASKED, UNASKED = 0.05, 0.005
#: Seconds: figures that were read faster are read at once, others in the background, while the last ones are shown.
AT_ONCE = 0.1
#: Seconds between two readings.
LEAST_PAUSE = 1.0


#: The counts of which a page shows the sums.
SUMMED: Final = ("ready", "locked", "scheduled", "dead_letters", "expired_locks")


def sums(queues: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The sums of the counts of queues, and whether they are exact."""
    counted = list(queues)
    found: dict[str, Any] = {name: sum(queue[name] for queue in counted) for name in SUMMED}
    return found | {"is_exact": all(queue["is_exact"] for queue in counted)}


@dataclass(frozen=True)
class Figures:
    """The figures: the queues by name, and the holders of messages."""

    taken_at: datetime
    queues: tuple[dict[str, Any], ...]
    holders: tuple[dict[str, Any], ...]
    cost: float
    read_at: float = field(default_factory=time.monotonic)

    @cached_property
    def totals(self) -> dict[str, Any]:
        """The sums over all queues."""
        return sums(self.queues)

    @property
    def age(self) -> float:
        """Seconds since they were read."""
        return time.monotonic() - self.read_at

    def is_fresh(self, share: float) -> bool:
        """Whether reading them again would take more than this share of a core."""
        return self.age < max(LEAST_PAUSE, self.cost / share)


def read(database: Database) -> Figures:
    """Read all figures, with the rights of the dashboard's own role."""
    with database.transaction(None) as rows:
        began = time.perf_counter()
        taken_at = rows.value("select pgqueue.clock()")
        queues = rows.all(QUEUES)
        expired: dict[str, int] = {}
        holders = rows.all(HOLDERS)
        for holder in holders:
            expired[holder["queue"]] = expired.get(holder["queue"], 0) + holder["expired"]
        queues = [{**queue, "expired_locks": expired.get(queue["name"], 0)} for queue in queues]
        queues.sort(key=lambda queue: queue["name"])
        return Figures(taken_at, tuple(queues), tuple(holders), time.perf_counter() - began)


class KeptFigures:
    """The figures that were read last."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: Figures | None = None
        self._reading = threading.Lock()

    def get(self, share: float = ASKED) -> Figures:
        """The figures; where they are old and take long, they are read in the background, and the old ones returned."""
        kept = self._kept
        if kept is None or (kept.cost < AT_ONCE and not kept.is_fresh(share)):
            return self.read_again()
        if not kept.is_fresh(share) and not self._reading.locked():
            threading.Thread(target=_logged(self.read_again), name="pgqueue-figures", daemon=True).start()
        return kept

    def read_again(self) -> Figures:
        """Read them now; who asks meanwhile gets the same."""
        before = self._kept
        with self._reading:
            if self._kept is None or self._kept is before:
                self._kept = read(self._database)
            return self._kept


class Sampler:
    """Takes a sample every minute, or less often where that would take more than its share of a core."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pgqueue-sampler", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the sample that is being taken."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        pause = 0.0
        while not self._stopping.wait(pause):
            began = time.perf_counter()
            _logged(self.take)()
            pause = max(60 - time.time() % 60, (time.perf_counter() - began) / UNASKED)

    def take(self) -> None:
        """Take a sample now."""
        with self._database.transaction(None, writes=True) as rows:
            rows.value("select pgqueue.take_sample()")


def _logged(act: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        try:
            act()
        except PGQueueError as error:
            logger.warning("the dashboard could not read: %s", error, extra={"tracking_id": error.tracking_id})

    return run
