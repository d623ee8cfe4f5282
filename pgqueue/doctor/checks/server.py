"""The server, and what is between it and this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from pgqueue.doctor.check import Check, Finding, Row
from pgqueue.errors import InvalidArgumentError
from pgqueue.model.recurrence import zone


def time_zones(rows: Sequence[Row]) -> Iterator[Finding]:
    """Find time zones of schedules that this machine does not know, or knows otherwise than the server."""
    for row in rows:
        try:
            offset = datetime.now(UTC).astimezone(zone(row.timezone)).utcoffset()
        except InvalidArgumentError:
            what = f"This machine does not know the time zone {row.timezone}, in which schedules of {row.queue} recur."
            cost = "Workers on such a machine do not compute their due times, and nothing is sent when these run out."
        else:
            if row.utc_offset is None or row.utc_offset == offset:
                continue
            what = f"The time zone {row.timezone} is {offset} from UTC here, and {row.utc_offset} on the server."
            cost = f"One of them has old rules: schedules of {row.queue} may be sent at the wrong hour."
        yield Finding(what=what, cost=cost, mend="pip install --upgrade tzdata")


WRAPAROUND = Check(
    "wraparound",
    """
    select datname::text as database, kind, age,
           case when datallowconn then 'vacuum (freeze);  -- in that database'
                else format('alter database %%I with allow_connections true;  -- vacuum (freeze) there, and undo this',
                            datname) end as mend
      from pg_database
     cross join lateral (values
           ('transaction', age(datfrozenxid)),
           ('multixact', mxid_age(datminmxid))
           ) as used (kind, age)
     where age > %(oldest_id)s
     order by age desc
    """,
    "Database {row.database} still has {row.kind} ids that are {row.age:,} old.",
    "At 2,147 million the server refuses to write. Something keeps vacuum from freezing rows: look for old"
    " transactions, prepared ones and replication slots first.",
    "{row.mend}",
)

CONNECTIONS = Check(
    "connections",
    """
    with used as (
        select 'the server' as scope, sum(numbackends) as taken,
               current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
                   - coalesce(current_setting('reserved_connections', true), '0')::integer as available
          from pg_stat_database
         union all
        select format('database %%s', datname), numbackends, datconnlimit
          from pg_database
          join pg_stat_database using (datname)
         where datname = current_database() and datconnlimit > 0
         union all
        select format('role %%s', rolname), count(*), rolconnlimit
          from pg_roles
          join pg_stat_activity on usesysid = pg_roles.oid
         where rolconnlimit > 0
         group by rolname, rolconnlimit
        having bool_or(datname = current_database())
    )
    select * from used where taken >= %(connections)s * available
    """,
    "{row.taken} of the {row.available} connections of {row.scope} are taken.",
    "When none is left, applications are refused, and workers cannot reconnect.",
    "select usename, application_name, count(*) from pg_stat_activity group by 1, 2 order by 3 desc;",
)

READ_ONLY = Check(
    "read-only",
    """
    select case when is_standby then 'The server is a standby'
                else 'Transactions are read-only by default' end as state,
           case when is_standby then 'pgqueue doctor --dsn DSN  # of the primary, by target_session_attrs=read-write'
                else 'select source, sourcefile from pg_settings where name = ''default_transaction_read_only'';'
                end as mend
      from pg_is_in_recovery() as is_standby
     where is_standby or current_setting('default_transaction_read_only')::boolean
    """,
    "{row.state}.",
    "Nothing can be sent, received or settled here: each call fails with 25006.",
    "{row.mend}",
)

CLOCKS = Check(
    "clock",
    """
    select abs(seconds) as seconds, case when seconds > 0 then 'ahead of' else 'behind' end as side
      from extract(epoch from %(local_time)s::timestamptz - pgqueue.clock()) as seconds
     where abs(seconds) > extract(epoch from %(clocks)s::interval)
    """,
    "This machine's clock is {row.seconds:,.0f} s {row.side} the database's.",
    "Locks are kept by the database's clock: nothing is lost. Times that an application computes by itself for"
    " messages are wrong by so much.",
    "timedatectl set-ntp true",
)

TIME_ZONES = Check(
    "time-zone",
    """
    select timezone, queue, (select utc_offset from pg_timezone_names where name = timezone) as utc_offset
      from (select timezone, min(queue) as queue
              from pgqueue._upkeep
             cross join unnest(timezones) as timezone
             group by timezone) as used
     order by timezone
    """,
    judge=time_zones,
)

PGBOUNCER = Check(
    "pgbouncer",
    "select where pg_backend_pid() <> %(backend_pid)s",
    "This connection leads through a pooler, such as PgBouncer, where LISTEN does not work.",
    "Consumers with this DSN are not woken: they poll, a worker once a second. Nothing is lost.",
    "pgqueue doctor --dsn DSN  # the server's own; give it to your receivers if all is well with it",
)
