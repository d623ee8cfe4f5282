-- Gives dead letters back to their queue: those with these sequence numbers, with this reason, older than that, above
-- `after` and `max_messages` of them at the most; what is null does not narrow the choice. Each keeps its sequence
-- number and its enqueued time, counts its deliveries and its time to live anew, says nothing of its death any more,
-- and is delivered before the fresh messages, in the order they were sent.
--
-- To move many, call it with a bound, commit, and call it again with the last number that it returned as `after`.
-- Returns  their sequence numbers, ascending.
-- Raises   PQ002 unknown queue, PQ007 invalid argument.
-- Locks    the dead letters; skips those that open transactions hold, and those that somebody holds under lock.
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
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    source pgqueue.queue := pgqueue._find_queue(queue);
    moment timestamptz   := pgqueue.clock();
    places tid[];
begin
    perform pgqueue._check_bound(max_messages);
    places := array(
        select ctid
          from pgqueue.dead_letter
         where queue_id = source.id
           and (sequence_numbers is null or sequence_number = any (sequence_numbers))
           and (reason is null or dead_letter_reason = reason)
           and (older_than is null or dead_lettered_at <= moment - older_than)
           and (after is null or sequence_number > after)
           and (locked_until is null or locked_until <= moment)
         order by sequence_number
         limit max_messages
           for update skip locked);
    if source.awaited_until > moment then
        perform pgqueue._notify(source);
    end if;
    return query select number from pgqueue._move_from_dead_letters(places) as number order by number;
end
$$;
