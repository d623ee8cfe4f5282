"""Killing a consumer in the middle of a transaction, and knowing that it was the middle."""

from __future__ import annotations

import time

from pgqueue.demo import business
from pgqueue.demo.processes import Child

#: For how long a frozen consumer's transaction must not move, before nothing can be on its way to the database.
STILLNESS = 0.005

OPEN_TRANSACTION = """
select state_change, (next - ((next - backend_xid::text::bigint) & x'ffffffff'::bigint))::text
  from pg_stat_activity
 cross join (select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next) as horizon
 where application_name = %s and datname = current_database()
   and state = 'idle in transaction' and backend_xid is not null
"""


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
    business.note_kill(connection, consumer.name, before[1])
    return True
