-- Examines up to `max_messages` entries of the watch list that are due; see pgqueue._pass_due_times for `due_from`. A message that nobody holds any more is moved
-- to the redelivery lane, or to the dead letters if it was delivered as often as its queue allows; one that was
-- renewed, or that an open transaction holds, stays on the list; the entry of one that is gone is deleted.
-- Returns  how many messages were redelivered, and how many entries were examined.
create or replace function pgqueue._redeliver_watched(
    queue_id integer, due_from timestamptz, max_messages integer default 1000, out returned integer, out looked_at integer)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    moment  timestamptz := pgqueue.clock();
    watched tid[];
    free    tid[];
    source  pgqueue.queue;
    spent   tid[];
begin
    watched := array(
        select ctid
          from pgqueue.watch
         where queue_id = _redeliver_watched.queue_id and due between _redeliver_watched.due_from and moment
         order by due
         limit max_messages
           for update skip locked);
    free := array(
        select message.ctid
          from pgqueue.watch
          join pgqueue.message using (queue_id, lane, position)
         where watch.ctid = any (watched) and (locked_until is null or locked_until <= moment)
           for update of message skip locked);
    select * into source from pgqueue.queue where id = _redeliver_watched.queue_id;
    spent := pgqueue._exhausted(source, free);
    if spent <> '{}' then
        perform pgqueue._move_exhausted(source, spent);
        free := array(select ctid from pgqueue.message where ctid = any (free));
    end if;
    perform pgqueue._redeliver(free, settled => false);
    delete from pgqueue.watch
     where ctid = any (watched)
       and not exists (
           select from pgqueue.message
            where message.queue_id = watch.queue_id and message.lane = watch.lane and message.position = watch.position);
    update pgqueue.watch
       set due = greatest(locked_until, moment + interval '1 second')
      from pgqueue.message
     where watch.ctid = any (watched)
       and message.queue_id = watch.queue_id and message.lane = watch.lane and message.position = watch.position;
    returned  := cardinality(free);
    looked_at := cardinality(watched);
end
$$;
