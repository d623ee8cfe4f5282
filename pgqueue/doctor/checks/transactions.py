"""Transactions that stay open: what they keep vacuum from removing, and who waits for their messages."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from pgqueue.doctor.check import Check, Finding, Row


def awaited_transactions(rows: Sequence[Row]) -> Iterator[Finding]:
    """Find open transactions that queues wait for, in any database: a snapshot does not show in which."""
    for row in rows:
        where = f"process {row.pid}" if row.gid is None else f"prepared as {row.gid!r}"
        sent, mend = "Its messages are received only after its end", row.mend
        if row.is_elsewhere:
            where += f", in database {row.database}"
            sent = "It can have sent nothing, but its id does not show that"
            if row.gid is not None:  # a prepared transaction is ended by a session of its own database
                mend = f"psql -d {shlex.quote(row.database)} -c {shlex.quote(mend)}"
        queues = f"Queue {row.queue} awaits" if row.queues == 1 else f"{row.queues:,} queues, as {row.queue}, await"
        yield Finding(
            what=f"{queues} the end of transaction {row.xid} ({where}).",
            cost=f"{sent}, and receives look for it in all numbers since.",
            mend=mend,
            since=row.began,
        )


OLD_TRANSACTIONS = Check(
    "old-transaction",
    """
    select pid, concat_ws(', ', usename, nullif(application_name, '')) as name, state, xact_start as since,
           left(statement, 100) || case when length(statement) > 100 then '…' else '' end as statement,
           case state when 'active' then ' It is at work: wait if it is a backup, or something that will end.'
                else '' end as warning,
           format('select pg_terminate_backend(pid) from pg_stat_activity where pid = %%s and xact_start = %%L;',
                  pid, xact_start) as mend,
           (select sum(n_dead_tup)
              from pg_stat_user_tables
             where schemaname = any ('{pgqueue,pgqueue_history}')) as dead_rows
      from pg_stat_activity
     cross join btrim(regexp_replace(query, '[[:space:]]+', ' ', 'g')) as statement
     where datname = current_database() and now() - xact_start > %(old_transaction)s
       and backend_type = 'client backend'
       and (backend_xmin is not null or backend_xid is not null) and pid <> pg_backend_pid()
       and pid not in (select pid from pg_stat_progress_vacuum)      -- which keeps no vacuum from removing rows
     order by xact_start
    """,
    "Process {row.pid} ({row.name}) has a transaction open, {row.state}: `{row.statement}`.",
    "Vacuum removes nothing that was deleted since: {row.dead_rows:,} dead rows are left by now.{row.warning}",
    "{row.mend}",
    looks_at_sessions=True,
)

PREPARED_TRANSACTIONS = Check(
    "prepared-transaction",
    """
    select gid, owner::text, prepared as since,
           format('rollback prepared %%L;  -- or commit prepared %%1$L;', gid) as mend
      from pg_prepared_xacts
     where database = current_database() and now() - prepared > %(old_transaction)s
     order by prepared
    """,
    "{row.owner} has prepared the transaction {row.gid!r}, and it was never ended.",
    "It keeps its locks, even over a restart, and vacuum removes nothing that was deleted since.",
    "{row.mend}",
)

REPLICATION_SLOTS = Check(
    "replication-slot",
    """
    with known as (
        select format('The replication slot %%L, %%s,', slot_name,
                      case when active then 'active' else 'without a reader' end) as name,
               greatest(age(xmin), age(catalog_xmin)) as age, active_pid as pid,
               case when xmin is null then ', in the catalogs' else '' end as limitation,
               case when active then ', and the server keeps the write-ahead log that it has not read'
                    else ', and the server keeps its write-ahead log until the disk is full' end as kept,
               case when not active then format('select pg_drop_replication_slot(%%L);', slot_name) end as mend
          from pg_replication_slots
         union all
        select format('The standby %%L, without a slot,', application_name), age(backend_xmin), pid, '', '', null
          from pg_stat_replication                        -- it sends feedback
         where pid not in (select active_pid from pg_replication_slots where active_pid is not null)
    )
    select name, age, limitation, kept,
           coalesce(mend, format('select pid, xact_start, query from pg_stat_activity order by xact_start;  -- on the'
                                 ' server that process %%s sends to: end what is open there, or wait', pid)) as mend
      from known
     where age > %(old_slot)s
     order by age desc
    """,
    "{row.name} is {row.age:,} transactions behind.",
    "Vacuum removes nothing that it may need{row.limitation}{row.kept}.",
    "{row.mend}",
)

AWAITED_TRANSACTIONS = Check(
    "awaited-transaction",
    """
    select xid::text, count(*) as queues, min(queue) as queue, pid, gid, coalesce(datname, database)::text as database,
           coalesce(datname, database) <> current_database() as is_elsewhere,
           began,
           case when gid is null
                then format('select pg_terminate_backend(pid) from pg_stat_activity where pid = %%s'
                            ' and backend_xid = %%L;', pid, xid::xid)
                else format('rollback prepared %%L;  -- or commit prepared %%1$L;', gid)
           end as mend
      from pgqueue._upkeep
     cross join unnest(awaited) as xid
      left join pg_stat_activity on backend_xid = xid::xid
      left join pg_prepared_xacts on transaction = xid::xid
     cross join coalesce(xact_start, prepared) as began
     where now() - began > %(old_transaction)s
     group by xid, pid, gid, datname, database, began
     order by began
    """,
    judge=awaited_transactions,
    looks_at_sessions=True,
)
