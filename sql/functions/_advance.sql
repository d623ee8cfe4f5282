-- Moves the recorded cursor of each lane, at most once a second a queue, whoever comes first.
--
-- What the cursor passes while it is still there is put under watch until its lock runs out; so an expired
-- lock is found without walking what was consumed since. The cursor stops at the first message that is free for
-- the taking and that this session has not overtaken. One that an open transaction holds, or held when this session's
-- own cursor went by, is passed, under watch.
--
-- A transaction open for more than a second is not waited for. Then the cursor runs ahead of `proven`, and
-- what such a transaction brings behind the cursor is put under watch as soon as `proven` has caught up,
-- a million numbers at a time.
create or replace function pgqueue._advance(queue pgqueue.queue, scan bigint[])
returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    last_number bigint := (select last_value from pgqueue.sequence_number);
    snapshot    pg_snapshot := pg_current_snapshot();        -- taken after the number was read
    moment      timestamptz := pgqueue.clock();
    was         pgqueue.progress;
    reached     bigint;
    certain     bigint;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        return;                                              -- an old snapshot proves nothing
    end if;
    for was in
        select *
          from pgqueue.progress
         where queue_id = queue.id and horizon_taken_at <= moment - interval '1 second'
         order by lane
           for update skip locked
    loop
        if was.cursor > last_number then                     -- the sequence went back: begin again
            perform setval('pgqueue.sequence_number', was.cursor);
            was.cursor := 0;
            was.proven := 0;
            was.horizon := 0;
        end if;
        certain := was.proven;
        if pg_snapshot_xmin(snapshot) >= was.horizon_xid
           or pg_snapshot_xmax(snapshot) < was.horizon_xid then                  -- restored into another cluster
            certain := greatest(certain, was.horizon);
        end if;
        if was.proven < was.cursor then
            certain := pgqueue._watch_passed(was, was.proven, least(certain, was.cursor, was.proven + 1000000));
        end if;
        reached := coalesce(
            (select position - 1
               from pgqueue.message
              where queue_id = was.queue_id and lane = was.lane
                and position > greatest(was.cursor, scan[array_position(queue.lanes, was.lane) + 1])
                and position <= was.horizon and locked_until is null
              order by position
              limit 1
                for update skip locked),
            greatest(was.cursor, was.horizon));
        update pgqueue.progress
           set cursor           = pgqueue._watch_passed(was, was.cursor, reached),
               proven           = certain,
               horizon          = last_number,
               horizon_xid      = pg_snapshot_xmax(snapshot),
               horizon_taken_at = moment
         where queue_id = was.queue_id and lane = was.lane;
    end loop;
end
$$;
