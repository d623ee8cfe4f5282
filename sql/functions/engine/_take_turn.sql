-- Takes a turn: the upkeep of a queue, which a receive does once a second, and whenever it finds nothing; see
-- docs/engine.md. A turn in any queue fires the schedules of all queues, and is one in the queues that forward to this
-- one, too: these may have no receivers.
-- Returns  whether a message became available.
create or replace function pgqueue._take_turn(queue pgqueue.queue)
returns boolean
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    moment   timestamptz := pgqueue.clock();
    fetched  bigint      := pg_stat_get_xact_blocks_fetched('pgqueue.message'::regclass);
    returned integer     := 0;
    checked  bigint;
    passed   record;
    due      record;
    upstream pgqueue.queue;
begin
    for upstream in select * from pgqueue.queue as known where known.forward_to = queue.id loop
        returned := returned + pgqueue._take_turn(upstream)::integer;
    end loop;
    if queue.auto_delete_on_idle is not null then
        perform pgqueue._use(queue);
    end if;
    if exists (
        select
          from pgqueue._progress(queue.id, queue.lanes) as progress
         where (horizon_taken_at <= moment - interval '1 second' or horizon_taken_at > moment)
           and (horizon > pgqueue._last_number_drawn()
                or horizon_taken_at > moment + interval '1 second'
                or not awaited <@ array(select pg_snapshot_xip(pg_current_snapshot()))
                or exists (
                   select
                     from pgqueue.message
                    where message.queue_id = progress.queue_id and message.lane = progress.lane
                      and message.position > progress.cursor))
    ) or pg_stat_get_xact_blocks_fetched('pgqueue.message'::regclass) > fetched + 32 then
        perform pgqueue._advance_cursors(queue);
        if pgqueue._is_repairing() then
            return false;
        end if;
    end if;
    begin
        for passed in
            select kind
              from pgqueue._scheduled_progress(queue.id)
             where horizon > pgqueue.clock() or not awaited <@ array(select pg_snapshot_xip(pg_current_snapshot()))
        loop
            perform pgqueue._pass_due_times(queue.id, passed.kind);
        end loop;
        fetched := pg_stat_get_xact_blocks_fetched('pgqueue.scheduled_message'::regclass);
        checked := pg_stat_get_xact_blocks_fetched('pgqueue.watch'::regclass);
        select (select due                                   -- in this order, so that the planner takes its index
                  from pgqueue.watch
                 where queue_id = queue.id and due >= pgqueue._due_from(queue.id, 'WATCH')
                 order by due
                 limit 1) <= pgqueue.clock() as is_watched,   -- not `moment`: some were added to the list since
               (select scheduled_enqueue_time
                  from pgqueue.scheduled_message
                 where queue_id = queue.id and scheduled_enqueue_time >= pgqueue._due_from(queue.id)
                 order by scheduled_enqueue_time
                 limit 1) <= moment as is_scheduled
          into due;
        if due.is_watched then
            returned := returned + (pgqueue._redeliver_watched(queue.id, pgqueue._due_from(queue.id, 'WATCH'))).returned;
        end if;
        if due.is_scheduled then
            returned := returned + pgqueue._activate_scheduled(queue.id, pgqueue._due_from(queue.id));
        end if;
        if pg_stat_get_xact_blocks_fetched('pgqueue.watch'::regclass) > checked + 32 then
            perform pgqueue._pass_due_times(queue.id, 'WATCH');
        end if;
        if pg_stat_get_xact_blocks_fetched('pgqueue.scheduled_message'::regclass) > fetched + 32 then
            perform pgqueue._pass_due_times(queue.id);
        end if;
        if queue.priority_ageing is not null then
            perform pgqueue._raise_waiting(queue);
        end if;
        if exists (select from pgqueue.schedule where fire_at <= moment) then
            returned := returned + pgqueue._fire_schedules();
        end if;
        if queue.forward_to is not null then
            returned := returned + pgqueue._forward_waiting(queue);
        end if;
    exception when unique_violation then                     -- the sequence handed out a number that is in use
        perform pgqueue._repair_sequence();
        return false;
    end;
    return returned > 0;
end
$$;
