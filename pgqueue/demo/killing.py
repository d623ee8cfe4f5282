"""Kills a consumer that is certainly in the middle of a transaction."""

from __future__ import annotations

import time

from pgqueue.demo import business
from pgqueue.demo.processes import Child

#: In seconds: how long the transaction of a stopped consumer must not change, so that no statement is on its way.
STILLNESS = 0.005

OPEN_TRANSACTION = """
select state_change, backend_xid::text::bigint
  from pg_stat_activity
 where application_name = %s and datname = current_database()
   and state = 'idle in transaction' and backend_xid is not null
"""

PRESENT = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint"


def strike(connection: business.Connection, consumer: Child) -> bool:
    """Stop a consumer and look at its transaction; kill it if the transaction has written, else let it continue."""
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
    """The full transaction id for its lower 32 bits, which pg_stat_activity shows: the one nearest to ``present``."""
    return present + (transaction_id - present + 2**31) % 2**32 - 2**31
