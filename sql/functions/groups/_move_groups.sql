-- Moves waiting groups, whose rows are locked, to the times when receives are to look at them next. If much was read, their cursors pass what
-- is gone, up to the horizon, once every transaction is over that could have drawn a smaller number. A transaction that is open a tenth of a
-- second longer is awaited, as in pgqueue._advance_cursors.
create or replace function pgqueue._move_groups(places tid[], nexts timestamptz[], drawn bigint, reads_much boolean)
returns void
language plpgsql
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgqueue.clock();
    xid    xid8        := pg_current_xact_id();
    ended  xid8        := pg_snapshot_xmin(pg_current_snapshot());
    open   xid8[];
    other  record;
    known  pgqueue.waiting_session;
    start  bigint;
    count  integer;
begin
    update pgqueue.waiting_session as waiting
       set available_at     = given.next,
           changed_by       = xid,
           cursor           = case when horizon > (select last_value from pgqueue.sequence_number) then 0          -- it went back
                                   when horizon_xid <= ended and reads_much then pgqueue._passed_in_group(waiting)
                                   else cursor end,
           horizon          = case when horizon_xid <= ended then coalesce(drawn, horizon) else horizon end,
           horizon_xid      = case when horizon_xid <= ended and drawn is not null then xid else horizon_xid end,
           horizon_taken_at = case when horizon_xid <= ended then moment else horizon_taken_at end
      from unnest(places, nexts) as given (place, next)
     where ctid = given.place
       and awaited is null and (horizon_xid <= ended or not reads_much or horizon_taken_at between moment - interval '100 ms' and moment);
    get diagnostics count = row_count;
    if count = cardinality(places) then
        return;
    end if;
    open := array(select pg_snapshot_xip(pg_current_snapshot()));
    for other in                                             -- which are still at these places
        select given.*, waiting
          from unnest(places, nexts) as given (place, next)
         cross join lateral (select * from pgqueue.waiting_session where ctid = given.place limit 1) as waiting
    loop
        known := other.waiting;
        start := known.cursor;                               -- those who are not awaited have drawn larger numbers
        known.cursor := pgqueue._group_cursor(known);
        select array_agg(late.xid), array_agg(late.above) into known.awaited, known.awaited_above
          from unnest(known.awaited, known.awaited_above) as late (xid, above)
         where late.xid = any (open);
        if reads_much and known.horizon <= pgqueue._last_number_drawn() then
            known.cursor := pgqueue._passed_in_group(known);
            if known.cursor > start then
                select known.awaited || array_agg(late), known.awaited_above || array_agg(start) into known.awaited, known.awaited_above
                  from unnest(open) as late
                 where late < known.horizon_xid and late <> all (coalesce(known.awaited, '{}'));
            end if;
        end if;
        update pgqueue.waiting_session
           set available_at     = other.next,
               changed_by       = xid,
               cursor           = known.cursor,
               horizon          = coalesce(drawn, horizon),
               horizon_xid      = case when drawn is not null then xid else horizon_xid end,
               horizon_taken_at = moment,
               awaited          = known.awaited,
               awaited_above    = known.awaited_above
         where ctid = other.place;
    end loop;
end
$$;
