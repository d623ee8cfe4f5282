-- Creates a batch. When it is closed and its last member is settled, that transaction sends the final message, once: the one with this number,
-- or that of `on_failure`, if there is one and a member was dead-lettered. The other one is deleted. Both were scheduled in the queue for
-- pgqueue.batch_end(). A final message that is cancelled or rescheduled before that no longer belongs to the batch.
-- Each belongs to one batch only.
-- Returns  the id of the batch, which suffices to add members and to read the counts.
-- Raises   PQ002 unknown queue; PQ006 message not found, when a message does not wait for the end of a batch, or waits for that of
--          another one, as a duplicate does.
-- Locks    both messages, until the transaction ends; waits for an open transaction that cancels or reschedules one.
create or replace function pgqueue.create_batch(queue text, sequence_number bigint, on_failure bigint default null)
returns uuid
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    target pgqueue.queue := pgqueue._find_queue(queue, 'SEND');
    number bigint;
    places tid[];
    new_id uuid := gen_random_uuid();
begin
    foreach number in array array[create_batch.sequence_number] || array_remove(array[on_failure], null) loop
        places := pgqueue._lock_held(target.id, number);
        if places = '{}' then
            perform pgqueue._refuse(
                'PQ006', format('no message %s of queue %I waits for the end of a batch that is not created yet', number, target.name),
                'Schedule it for pgqueue.batch_end() before, in the same transaction, and not as a duplicate of another one.');
        end if;
        update pgqueue.scheduled_message
           set scheduled_enqueue_time = pgqueue.batch_end()                                  -- see pgqueue._lock_held
                                        + interval '1 microsecond' * (1 + ('x' || left(new_id::text, 8))::bit(32)::bigint)
         where ctid = any (places);
    end loop;
    insert into pgqueue.batch (id, queue_id, sequence_number, failure_number, created_at)
    values (new_id, target.id, create_batch.sequence_number, on_failure, pgqueue.clock());
    insert into pgqueue.batch_stripe (batch_id, stripe)
    select id, generate_series(0, open_stripes - 1) from pgqueue.batch where id = new_id;
    return new_id;
end
$$;
