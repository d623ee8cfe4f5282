-- Returns up to which position a group need not be looked through: to its cursor, or to where it was when the first
-- transaction was awaited that is over now. If the sequence went back, everything is looked through.
create or replace function pgqueue._group_cursor(waiting pgqueue.waiting_session)
returns bigint
language sql stable
return case when waiting.horizon <= pgqueue._last_number_drawn()
            then least(waiting.cursor, (
                select min(above)
                  from unnest(waiting.awaited, waiting.awaited_above) as late (xid, above)
                 where xid <> all (array(select pg_snapshot_xip(pg_current_snapshot())))))
            else 0 end;
