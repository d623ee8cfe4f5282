-- Cancels a message, whatever its state: one that waits, is scheduled or deferred, and one that is being worked on. Its
-- holder loses the lock, is notified at once where it listens, and cannot settle the message; it is not delivered
-- again. With a `reason` it becomes a dead letter, for Cancelled, described by that reason; without one it is deleted.
-- Returns  whether it was cancelled; false when there is no such message, and when an open transaction holds it: that
--          decides about it.
-- Raises   PQ002 unknown queue, PQ007 invalid argument.
-- Locks    the message, until the transaction ends; does not wait.
create or replace function pgqueue.cancel(queue text, sequence_number bigint, reason text default null)
returns boolean
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    source   pgqueue.queue := pgqueue._find_queue(queue, 'RECEIVE');
    held     record;
    sessions text[];
begin
    if reason = '' then
        perform pgqueue._refuse_argument('reason', 'a text that is not empty', quote_literal(reason));
    end if;
    select * into held from pgqueue._lock_by_number(source, array[sequence_number], even_locked => true);
    if held.places || held.scheduled = '{}' then
        return false;
    end if;
    perform pgqueue._announce_loss(source, cancel.sequence_number)
       from pgqueue.message
      where ctid = any (held.places) and lock_token is not null;
    if reason is null then
        perform pgqueue._remove(source, held.places, held.scheduled, 'CANCELLED');
    else
        sessions := pgqueue._sessions_of(source, held.places);
        perform pgqueue._move_to_dead_letters(
            source, held.places || (pgqueue._unschedule(held.scheduled)).moved, 'Cancelled', reason);
        perform pgqueue._release_successors(source, sessions);
    end if;
    return true;
end
$$;
