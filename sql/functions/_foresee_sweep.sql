-- What pgqueue._sweep_queue would do now, if it had no bound; nothing is locked.
create or replace function pgqueue._foresee_sweep(
    queue pgqueue.queue,
    out dead_lettered integer, out returned integer, out activated integer, out handled integer)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    moment    timestamptz := pgqueue.clock();
    exhausted integer;
begin
    select count(*), count(*) filter (where delivery_count >= queue.max_delivery_count) into activated, exhausted
      from pgqueue.scheduled_message
     where queue_id = queue.id and scheduled_enqueue_time <= moment;
    select exhausted + count(*) into dead_lettered from pgqueue._over_delivered(queue);
    select count(*) into returned
      from pgqueue.watch
      join pgqueue.message using (queue_id, lane, position)
     where queue_id = queue.id and due <= moment
       and delivery_count < queue.max_delivery_count and (locked_until is null or locked_until <= moment);
    handled := 0;
end
$$;
