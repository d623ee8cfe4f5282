"""Transactions that stay open: what they keep vacuum from removing, and who waits for their messages."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from pgqueue.doctor import thresholds
from pgqueue.doctor.check import Check, Finding, Row, each

#: Enough of a statement to recognize it.
SHOWN = 100

#: A warning before a session is ended that is not idle.
WORKING = " It is at work: wait if it is a backup, or something that will end."


def old_transactions(rows: Sequence[Row]) -> Iterator[Finding]:
    """Find sessions whose snapshot or transaction id is old."""
    for row in rows:
        if row.now - row.xact_start > thresholds.OLD_TRANSACTION:
            yield Finding(
                what=_session(row),
                cost=f"Vacuum removes nothing that was deleted since: {row.dead_rows:,} dead rows are left by now."
                + (WORKING if row.state == "active" else ""),
                mend=row.mend,
                since=row.xact_start,
            )


def replication_slots(rows: Sequence[Row]) -> Iterator[Finding]:
    """Find replication slots that still need what was deleted long ago."""
    for row in rows:
        if row.age > thresholds.OLD_SLOT:
            yield Finding(
                what=f"The replication slot {row.slot_name!r}, {'active' if row.active else 'without a reader'}, is"
                f" {row.age:,} transactions behind.",
                cost=f"Vacuum removes nothing that it may need{'' if row.holds_rows else ', in the catalogs'}, and the"
                " server keeps its write-ahead log until the disk is full.",
                mend=row.mend,
            )


def awaited_transactions(rows: Sequence[Row]) -> Iterator[Finding]:
    """Find open transactions that queues wait for, in any database: a snapshot does not show in which."""
    for row in rows:
        if row.now - row.began > thresholds.OLD_TRANSACTION:
            where = f"process {row.pid}" if row.gid is None else f"prepared as {row.gid!r}"
            sent = "Its messages are received only after its end"
            if row.is_elsewhere:
                where += f", in database {row.database}"
                sent = "It can have sent nothing, but its id does not show that"
            queues = f"Queue {row.queue} awaits" if row.queues == 1 else f"{row.queues:,} queues, as {row.queue}, await"
            yield Finding(
                what=f"{queues} the end of transaction {row.xid} ({where}).",
                cost=f"{sent}, and receives look for it in all numbers since.",
                mend=_in_its_database(row) if row.gid is not None and row.is_elsewhere else row.mend,
                since=row.began,
            )


def _in_its_database(row: Row) -> str:
    """The command that ends a prepared transaction, which takes a session of its own database."""
    return f"psql -d {shlex.quote(row.database)} -c {shlex.quote(row.mend)}"


def _session(row: Row) -> str:
    """The session's user, program, state and last query."""
    statement = " ".join(row.query.split())
    shown = statement if len(statement) <= SHOWN else f"{statement[:SHOWN]}…"
    name = ", ".join(filter(None, (row.role, row.application_name)))
    return f"Process {row.pid} ({name}) has a transaction open, {row.state}: `{shown}`."


OLD_TRANSACTIONS = Check(
    "old-transaction",
    """
    select pid, usename::text as role, application_name, state, query, xact_start, now() as now,
           format('select pg_terminate_backend(pid) from pg_stat_activity where pid = %%s and xact_start = %%L;',
                  pid, xact_start) as mend,
           (select sum(n_dead_tup)
              from pg_stat_user_tables
             where schemaname in ('pgqueue', 'pgqueue_history')) as dead_rows
      from pg_stat_activity
     where datname = current_database() and xact_start is not null and backend_type = 'client backend'
       and (backend_xmin is not null or backend_xid is not null) and pid <> pg_backend_pid()
       and pid not in (select pid from pg_stat_progress_vacuum)      -- which keeps no vacuum from removing rows
     order by xact_start
    """,
    old_transactions,
    looks_at_sessions=True,
)

PREPARED_TRANSACTIONS = Check(
    "prepared-transaction",
    """
    select gid, owner::text, prepared, now() as now,
           format('rollback prepared %%L;  -- or commit prepared %%1$L;', gid) as mend
      from pg_prepared_xacts
     where database = current_database()
     order by prepared
    """,
    each(
        "{row.owner} has prepared the transaction {row.gid!r}, and it was never ended.",
        "It keeps its locks, even over a restart, and vacuum removes nothing that was deleted since.",
        "{row.mend}",
        since="prepared",
        where=lambda row: row.now - row.prepared > thresholds.OLD_TRANSACTION,
    ),
)

REPLICATION_SLOTS = Check(
    "replication-slot",
    """
    select slot_name::text, active, xmin is not null as holds_rows, greatest(age(xmin), age(catalog_xmin)) as age,
           format('select %%spg_drop_replication_slot(%%L);',
                  case when active then format('pg_terminate_backend(%%s, 5000), ', active_pid) end, slot_name) as mend
      from pg_replication_slots
     where xmin is not null or catalog_xmin is not null
     order by age desc
    """,
    replication_slots,
)

AWAITED_TRANSACTIONS = Check(
    "awaited-transaction",
    """
    select xid::text, count(*) as queues, min(queue) as queue, pid, gid, coalesce(datname, database)::text as database,
           coalesce(datname, database) <> current_database() as is_elsewhere,
           coalesce(xact_start, prepared) as began, now() as now,
           case when gid is null
                then format('select pg_terminate_backend(pid) from pg_stat_activity where pid = %%s'
                            ' and backend_xid = %%L;', pid, xid::xid)
                else format('rollback prepared %%L;  -- or commit prepared %%1$L;', gid)
           end as mend
      from pgqueue._upkeep
     cross join unnest(awaited) as xid
      left join pg_stat_activity on backend_xid = xid::xid
      left join pg_prepared_xacts on transaction = xid::xid
     where xact_start is not null or prepared is not null
     group by xid, pid, gid, datname, database, xact_start, prepared
     order by began
    """,
    awaited_transactions,
    looks_at_sessions=True,
)
