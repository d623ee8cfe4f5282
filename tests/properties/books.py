"""Where every message is, by its number: in one place, whatever was done."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import psycopg

PLACES = """
select place, sequence_number
  from pgqueue.queue
  join (select 'waiting', queue_id, sequence_number from pgqueue.message
         union all select 'waiting', queue_id, sequence_number from pgqueue.scheduled_message
         union all select 'dead', queue_id, sequence_number from pgqueue.dead_letter
       ) as message (place, queue_id, sequence_number) on queue_id = queue.id
 where name = %(queue)s
 union all
select outcome, sequence_number from pgqueue.history where queue = %(queue)s and outcome <> 'DEAD_LETTERED'
"""


@dataclass
class Books:
    """The messages sent to a queue that retains its history, and the dead letters that were settled for good."""

    queue: str
    sent: set[int] = field(default_factory=set)
    dead_and_gone: set[int] = field(default_factory=set)

    def check(self, connection: psycopg.Connection[Any]) -> None:
        """sent = completed + expired + purged + cancelled + dead + waiting anywhere, each message once."""
        places: dict[int, list[str]] = {}
        for place, number in connection.execute(PLACES, {"queue": self.queue}):
            places.setdefault(number, []).append(place)
        for number in self.dead_and_gone:
            places.setdefault(number, []).append("dead and gone")
        assert {number: found for number, found in places.items() if len(found) > 1} == {}, "in two places"
        assert self.sent - places.keys() == set(), "lost"
        assert places.keys() - self.sent == set(), "never sent"

    def tally(self, connection: psycopg.Connection[Any]) -> Counter[str]:
        return Counter(place for place, _ in connection.execute(PLACES, {"queue": self.queue}))
