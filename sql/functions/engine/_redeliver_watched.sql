-- Examines up to `max_messages` entries of the watch list that are due; see pgqueue._pass_due_times for `due_from`. A
-- message that is no longer held is moved to the redelivery lane, or to the dead letters if it was delivered as often
-- as its queue allows; one that was renewed, or that an open transaction holds, stays on the list; the entry of one
-- that is gone is deleted.
-- Returns  how many messages were redelivered, and how many entries were examined.
create or replace function pgqueue._redeliver_watched(
    queue_id integer, due_from timestamptz, max_messages integer default 1000, out returned integer, out looked_at integer)
language plpgsql
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
        select held.place
          from unnest(watched) as entry (place)
         cross join lateral (                                 -- one by one: a join may read both tables through
               select * from pgqueue.watch where watch.ctid = entry.place limit 1) as watch
         cross join lateral (
               select message.ctid as place
                 from pgqueue.message
                where message.queue_id = watch.queue_id and message.lane = watch.lane and message.position = watch.position
                  and (locked_until is null or locked_until <= moment)
                limit 1
                  for update of message skip locked) as held);
    select * into source from pgqueue.queue where id = _redeliver_watched.queue_id;
    spent := pgqueue._exhausted(source, free);
    if spent <> '{}' then
        perform pgqueue._move_exhausted(source, spent);
        free := array(select ctid from pgqueue.message where ctid = any (free));
    end if;
    perform pgqueue._redeliver(free, settled => false);
    delete from pgqueue.watch
     where ctid = any (watched)
       and (select true
              from pgqueue.message
             where message.queue_id = watch.queue_id and message.lane = watch.lane and message.position = watch.position
             limit 1) is null;
    update pgqueue.watch
       set due = greatest(moment + interval '1 second', (
               select locked_until
                 from pgqueue.message
                where message.queue_id = watch.queue_id and message.lane = watch.lane and message.position = watch.position
                limit 1))
     where ctid = any (watched);
    returned  := cardinality(free);
    looked_at := cardinality(watched);
end
$$;
