-- Gives dead letters back to their queue: those with these sequence numbers, with this reason, dead-lettered longer ago
-- than `older_than`, with sequence numbers above `after`, and at most `max_messages` of them. An argument that is null
-- does not restrict the selection. Each message keeps its sequence number and enqueued time. Its delivery count and its
-- time to live start again; what it died of becomes its `resubmitted_from`, which pgqueue.messages shows. Resubmitted
-- messages are delivered before the fresh ones, in the order they were sent.
--
-- To resubmit many, call it with `max_messages`, commit, and call it again with the last number returned as `after`.
-- Returns  the sequence numbers, ascending.
-- Raises   PQ002 unknown queue, PQ007 invalid argument.
-- Locks    the dead letters; skips those that open transactions hold, and those that are locked by a receiver.
create or replace function pgqueue.resubmit(
    queue            text,
    sequence_numbers bigint[] default null,
    reason           text     default null,
    older_than       interval default null,
    max_messages     integer  default null,
    after            bigint   default null
)
returns setof bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    source pgqueue.queue := pgqueue._find_queue(queue, 'RECEIVE');
    moment timestamptz   := pgqueue.clock();
    places tid[];
    resubmitted bigint[];
begin
    perform pgqueue._check_bound(max_messages);
    perform pgqueue._check_duration('older_than', older_than, even_zero => true);
    perform pgqueue._use(source, sends => true);
    places := pgqueue._lock_dead_letters_to_move(source, sequence_numbers, reason, moment - older_than, after, max_messages);
    if source.awaited_until > moment then
        perform pgqueue._notify(source);
    end if;
    resubmitted := array(select number from pgqueue._move_from_dead_letters(places) as number order by number);
    if source.forward_to is not null then
        perform pgqueue._forward(source, array(
            select ctid
              from pgqueue.message
             where queue_id = source.id and lane % 2 = 0 and sequence_number = any (resubmitted)
               and lock_token is null), 'SENT');
    end if;
    return query select unnest(resubmitted);
end
$$;
