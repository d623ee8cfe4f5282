-- Returns the position up to which a receive need not search a group: its cursor, or, if an awaited transaction is over now, the cursor from
-- before it was awaited. If the sequence went back, the receive searches the whole group.
create or replace function pgqueue._group_cursor(waiting pgqueue.waiting_session)
returns bigint
language plpgsql stable
as $$
begin
    return case when waiting.horizon <= pgqueue._last_number_drawn()
                then least(waiting.cursor, (
                    select min(above)
                      from unnest(waiting.awaited, waiting.awaited_above) as late (xid, above)
                     where xid <> all (array(select pg_snapshot_xip(pg_current_snapshot())))))
                else 0 end;
end
$$;
