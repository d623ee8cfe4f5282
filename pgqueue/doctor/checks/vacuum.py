"""Vacuum: whether it runs, keeps up, and what it has left behind."""

from __future__ import annotations

from pgqueue.doctor.check import Check

AUTOVACUUM_OFF = Check(
    "autovacuum-off",
    """
    select format('%%s = off', name) as setting,
           format('alter system set %%s = on; select pg_reload_conf();', name) as mend
      from pg_settings
     where name in ('autovacuum', 'track_counts') and setting = 'off'
     union all
    select format('%%I.%%I has autovacuum_enabled = %%s', nspname, relname, option_value),
           format('alter table %%I.%%I reset (autovacuum_enabled);', nspname, relname)
      from pg_class
      join pg_namespace on pg_namespace.oid = relnamespace
     cross join pg_options_to_table(reloptions)
     where nspname = any ('{pgqueue,pgqueue_history}') and relkind = 'r'
       and option_name = 'autovacuum_enabled' and not option_value::boolean
    """,
    "Autovacuum is off: {row.setting}.",
    "The rows of settled messages stay: tables grow without end, until the server refuses to write.",
    "{row.mend}",
)

AUTOVACUUM_BEHIND = Check(
    "autovacuum-behind",
    """
    with options as (
        select pg_class.oid,
               max(option_value::float8) filter (where option_name = 'autovacuum_vacuum_threshold') as threshold,
               max(option_value::float8) filter (where option_name = 'autovacuum_vacuum_scale_factor') as scale_factor
          from pg_class
         cross join pg_options_to_table(reloptions)
         where option_name in ('autovacuum_vacuum_threshold', 'autovacuum_vacuum_scale_factor')
         group by pg_class.oid
    )
    select relid::regclass::text as name, n_dead_tup as dead_rows, vacuumed as since, begins_at
      from pg_stat_user_tables
      join pg_class on pg_class.oid = relid
      left join options on options.oid = relid
     cross join greatest(last_vacuum, last_autovacuum, pg_postmaster_start_time(),
                         (select installed_at from pgqueue.installation)) as vacuumed
     cross join lateral (
           select coalesce(threshold, current_setting('autovacuum_vacuum_threshold')::float8)
                      + greatest(0, reltuples)
                      * coalesce(scale_factor, current_setting('autovacuum_vacuum_scale_factor')::float8) as begins_at
           ) as planned
     where schemaname = any ('{pgqueue,pgqueue_history}')
       and n_dead_tup > %(dead_rows)s * begins_at and now() - vacuumed > %(unvacuumed)s
     order by n_dead_tup desc
    """,
    "{row.name} has {row.dead_rows:,} dead rows; autovacuum was to begin at {row.begins_at:,.0f}.",
    "The table grows. Autovacuum is busy with other tables, is too slow, or is cancelled by locks.",
    "vacuum (analyze) {row.name};",
)

BLOAT = Check(
    "bloat",
    """
    with tables as (                                     -- without those that PostgreSQL knows no number of rows of
        select pg_class.oid, reltoastrelid, oid::regclass::text as name,
               greatest(reltuples, pg_stat_get_live_tuples(oid))::bigint as rows
          from pg_class
         where relnamespace in (select oid from pg_namespace where nspname = any ('{pgqueue,pgqueue_history}'))
           and relkind = 'r' and (reltuples >= 0 or pg_stat_get_live_tuples(oid) > 0)
    ), sizes as (
        select name, rows, pg_relation_size(oid) as size, %(bloated_row)s as enough,
               format('vacuum (full, analyze) %%s;', name) as mend,
               ' The command stops the queues while it runs.' as warning
          from tables
         union all
        select toast.oid::regclass::text, greatest(toast.reltuples, pg_stat_get_live_tuples(toast.oid))::bigint,
               pg_relation_size(toast.oid), %(bloated_row)s, format('vacuum (full, analyze) %%s;', name),
               ' The command stops the queues while it runs.'
          from tables
          join pg_class as toast on toast.oid = tables.reltoastrelid
         where toast.reltuples >= 0 or pg_stat_get_live_tuples(toast.oid) > 0
         union all
        select indexrelid::regclass::text, rows, pg_relation_size(indexrelid), %(bloated_entry)s,
               format('reindex index concurrently %%s;', indexrelid::regclass), ''
          from tables
          join pg_index on indrelid = tables.oid
    )
    select name, rows, size / 2 ^ 20 as megabytes, mend, warning
      from sizes
     where size >= %(bloated_size)s and size > enough * greatest(1, rows)
     order by size desc
    """,
    "{row.name} takes {row.megabytes:,.0f} MB for about {row.rows:,} rows.",
    "Space on disk and in memory, and slow counts. Receives are not slower. New messages reuse it.{row.warning}",
    "{row.mend}",
)
