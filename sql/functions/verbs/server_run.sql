-- Returns a text that identifies this run of the server: a transaction id is given out once within a run. A standby that
-- is promoted begins another timeline, and a crash another run on the same one; either may forget the latest ids, and
-- give them out again. A clean restart does not, and is noticed on PostgreSQL 14 only, where the time since which the
-- statistics count is slow to read.
-- Raises   55000 on a standby, which gives out no ids.
create or replace function pgqueue.server_run()
returns text
language plpgsql volatile parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare                                  -- not in SQL: that is planned in each statement, which takes eight times as long
    timeline constant text := left(pg_walfile_name(pg_current_wal_lsn()), 8);
begin
    if current_setting('server_version_num')::integer >= 150000 then
        return concat_ws(' ', timeline, extract(epoch from pg_stat_get_bgwriter_stat_reset_time()));
    end if;
    return concat_ws(' ', timeline, extract(epoch from pg_postmaster_start_time()), pg_last_wal_replay_lsn());
end
$$;
