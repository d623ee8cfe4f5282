-- Receives up to `max_messages` and deletes them in the current transaction. In a transaction of its own that is
-- at-most-once delivery; in the caller's it is the traditional transacted receive: a commit removes the messages, a
-- rollback makes them available to anyone. It takes no turn, because the transaction may stay open; see
-- pgqueue.take_turn.
-- Returns  one row per message; no rows when no message is waiting.
-- Raises   PQ002 unknown queue, PQ004 queue disabled, PQ007 invalid argument.
-- Locks    the rows returned, until the transaction ends; skips whatever others hold.
create or replace function pgqueue.receive_and_delete(queue text, max_messages integer default 1)
returns setof pgqueue.received_message
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    received pgqueue.received_message[] := array(
        select message from pgqueue.receive(queue, max_messages, take_turn => false) as message);
    source   pgqueue.queue;
begin
    if pgqueue._is_dead_letter_queue(queue) then
        delete from pgqueue.dead_letter
         where ctid = any (array(                             -- one by one: a join may read the table through
                   select place
                     from unnest(received) as gone
                    cross join lateral (
                          select ctid as place
                            from pgqueue.dead_letter
                           where dead_letter.queue_id = gone.queue_id
                             and dead_letter.sequence_number = gone.sequence_number and dead_letter.position = gone.position
                           limit 1) as known));
    else
        select * into source from pgqueue.queue where name = receive_and_delete.queue;
        if source.records_settlements then
            perform pgqueue._record_settlement(
                source, array(select taken.sequence_number from unnest(received) as taken), 'RECEIVED_AND_DELETED');
        end if;
        with gone as (
            delete from pgqueue.message
             where ctid = any (array(
                       select place
                         from unnest(received) as taken
                        cross join lateral (
                              select ctid as place
                                from pgqueue.message
                               where message.queue_id = taken.queue_id
                                 and message.lane = taken.lane and message.position = taken.position
                               limit 1) as known))
            returning message)
        insert into pgqueue.settled_message
        select settled.*
          from gone
         cross join lateral pgqueue._history_row(gone.message, 'RECEIVED_AND_DELETED') as settled
         where source.retain_history is not null;
        if source.fair and pgqueue._limits_groups(source) then
            perform pgqueue._release_successors(source, array(select session_id from unnest(received)));
        end if;
    end if;
    perform pgqueue._forget_failures(queue_id, array_agg(sequence_number))
       from unnest(received)
      where lane % 2 = 0
      group by queue_id;
    return query select * from unnest(received);
end
$$;
