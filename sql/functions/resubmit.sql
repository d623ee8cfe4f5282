-- Gives dead letters back to their queue: those with these sequence numbers, with this reason, older than that, and
-- `max_messages` of them at the most; what is null does not narrow the choice. Each keeps its sequence number and its
-- enqueued time, counts its deliveries anew, and is delivered before the fresh messages, in the order they were sent.
-- Returns  their sequence numbers.
-- Raises   PQ002 unknown queue, PQ007 invalid argument.
-- Locks    the dead letters; skips those that open transactions hold.
create or replace function pgqueue.resubmit(
    queue            text,
    sequence_numbers bigint[] default null,
    reason           text     default null,
    older_than       interval default null,
    max_messages     integer  default null
)
returns setof bigint
language plpgsql
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    source pgqueue.queue := pgqueue._find_queue(queue);
    latest timestamptz   := pgqueue.clock() - older_than;
    places tid[];
begin
    perform pgqueue._check_bound(max_messages);
    places := array(
        select ctid
          from pgqueue.dead_letter
         where queue_id = source.id
           and (sequence_numbers is null or sequence_number = any (sequence_numbers))
           and (reason is null or dead_letter_reason = reason)
           and (latest is null or dead_lettered_at <= latest)
         order by sequence_number
         limit max_messages
           for update skip locked);
    if source.awaited_until > pgqueue.clock() then
        perform pgqueue._ring(source);
    end if;
    return query select pgqueue._revive(places);
end
$$;
