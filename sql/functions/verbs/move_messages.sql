-- Moves messages to another queue, by their sequence numbers, whether they wait, are scheduled or deferred; scheduled
-- and deferred ones stay so. Each keeps its number, its properties, its deliveries and what went wrong with them. Those
-- that waited go before the fresh messages, in the order they were sent, or to the ends of their sessions. The queue
-- takes them as if they were sent there: its status and its limits apply, and its time to live if that is shorter. A
-- queue that forwards passes on those that wait.
--
-- Messages that a receiver has locked stay, as do those that an open transaction holds, those that are duplicates
-- there, and final messages of batches.
-- Returns  how many were moved.
-- Raises   PQ002 unknown queue, PQ004 queue disabled, PQ005 message too large, PQ007 invalid argument, PQ008 queue
--          full; nothing is moved then.
-- Locks    the messages, until the transaction ends; skips those that others hold.
create or replace function pgqueue.move_messages(queue text, sequence_numbers bigint[], "to" text)
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    source     pgqueue.queue := pgqueue._find_queue(queue, 'RECEIVE');
    target     pgqueue.queue;
    held       record;
    duplicates bigint[];
    sessions   text[];
begin
    if exists (select from pgqueue.topic where name = "to") then
        perform pgqueue._refuse_argument(
            'to', format('a queue, such as a subscription %L', "to" || '/Subscriptions/NAME'), format('the topic %I', "to"));
    end if;
    target := pgqueue._find_queue("to", 'SEND');
    if target.id = source.id then
        perform pgqueue._refuse_argument('to', 'another queue', format('%I itself', "to"));
    elsif (source.requires_session or source.fair) and not (target.requires_session or target.fair) then
        perform pgqueue._refuse_argument(
            'to', format('a queue that requires sessions or is fair, as queue %I does', source.name), format('queue %I', target.name));
    end if;
    select * into held from pgqueue._lock_by_number(source, sequence_numbers, even_locked => false);
    held.scheduled := array(
        select place
          from unnest(held.scheduled) as place
         cross join lateral (                                 -- one by one: a join may read the table through
               select from pgqueue.scheduled_message where ctid = place and scheduled_enqueue_time < pgqueue.batch_end() limit 1) as movable);
    duplicates := pgqueue._check_arrival(source, target, held.places, held.scheduled);
    if duplicates <> '{}' then
        held.places := array(
            select ctid from pgqueue.message where ctid = any (held.places) and sequence_number <> all (duplicates));
        held.scheduled := array(
            select ctid from pgqueue.scheduled_message where ctid = any (held.scheduled) and sequence_number <> all (duplicates));
    end if;
    perform pgqueue._use(target, sends => true);
    perform pgqueue._create_lanes(target.id, priority)
       from (select distinct pgqueue._priority(lane) as priority
               from pgqueue._messages_at(held.places, held.scheduled)) as arriving
      where not (2 * priority + 1)::smallint = any (target.fresh_lanes) and not (target.requires_session or target.fair);
    if source.retain_history is not null then
        insert into pgqueue.settled_message
        select settled.*
          from pgqueue._messages_at(held.places, held.scheduled) as message
         cross join lateral pgqueue._history_row(message, 'MOVED', target.name) as settled;
    end if;
    update pgqueue.failed_message
       set queue_id = target.id
     where queue_id = source.id
       and sequence_number = any (array(select sequence_number from pgqueue._messages_at(held.places, held.scheduled)));
    perform pgqueue._keep_membership(source.id, target.id, array(
        select sequence_number from pgqueue._messages_at(held.places, held.scheduled)));
    sessions := pgqueue._sessions_of(source, held.places);
    perform pgqueue._place_in(target, held.places);
    perform pgqueue._schedule_in(target, held.scheduled);
    perform pgqueue._release_successors(source, sessions);
    if target.awaited_until > pgqueue.clock() then
        perform pgqueue._notify(target);
    end if;
    return cardinality(held.places) + cardinality(held.scheduled);
end
$$;
