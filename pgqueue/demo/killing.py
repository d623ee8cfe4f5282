"""Killing a consumer in the middle of a transaction, and knowing that it was the middle."""

from __future__ import annotations

import time

from pgqueue.demo import business
from pgqueue.demo.processes import Child

#: For how long a frozen consumer's transaction must not move, before nothing can be on its way to the database.
STILLNESS = 0.005

OPEN_TRANSACTION = """
select state_change, backend_xid::text::bigint
  from pg_stat_activity
 where application_name = %s and datname = current_database()
   and state = 'idle in transaction' and backend_xid is not null
"""

PRESENT = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint"


def strike(connection: business.Connection, consumer: Child) -> bool:
    """Freezes a consumer and looks at its transaction. One that has written something is killed; else it goes on."""
    with consumer.frozen():
        before = connection.execute(OPEN_TRANSACTION, [consumer.name]).fetchone()
        if before is None:
            return False
        time.sleep(STILLNESS)
        if connection.execute(OPEN_TRANSACTION, [consumer.name]).fetchone() != before:
            return False
        consumer.kill()
    present = connection.execute(PRESENT).fetchone()
    assert present is not None
    business.note_kill(connection, consumer.name, str(whole(before[1], present[0])))
    return True


def whole(transaction_id: int, present: int) -> int:
    """The activity shows the lower 32 bits of a transaction id; the whole of it is the one nearest to the present."""
    return present + (transaction_id - present + 2**31) % 2**32 - 2**31
