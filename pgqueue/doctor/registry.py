"""All checks, the most urgent first: what stops the queues, then what slows them down, then what needs tidying up."""

from __future__ import annotations

from pgqueue.doctor.checks import queues, rights, schema, server, transactions, vacuum

#: Comes first: where it finds something, the others have nothing to look at.
NOT_INSTALLED = schema.NOT_INSTALLED

CHECKS = (
    server.WRAPAROUND,
    server.CONNECTIONS,
    server.READ_ONLY,
    schema.SCHEMA_VERSION,
    schema.DEFINITIONS,
    schema.SEQUENCES,
    rights.MISSING_RIGHTS,
    rights.LOST_ROLES,
    queues.NO_RECEIVERS,
    queues.EXPIRED_LOCKS,
    queues.MISSING_WORKERS,
    queues.FULL_QUEUES,
    queues.DEAD_LETTERS,
    queues.LATE_SCHEDULES,
    queues.FAILING_SCHEDULES,
    queues.OPEN_BATCHES,
    transactions.OLD_TRANSACTIONS,
    transactions.PREPARED_TRANSACTIONS,
    transactions.REPLICATION_SLOTS,
    transactions.AWAITED_TRANSACTIONS,
    vacuum.AUTOVACUUM_OFF,
    vacuum.AUTOVACUUM_BEHIND,
    schema.CLAIM_PLAN,
    schema.INDEXES,
    server.CLOCKS,
    server.TIME_ZONES,
    server.PGBOUNCER,
    vacuum.BLOAT,
    queues.UNSWEPT_RECORDS,
    queues.UNSWEPT_HISTORY,
)

#: Only on demand, because it reads all messages.
INVARIANTS = queues.INVARIANTS
