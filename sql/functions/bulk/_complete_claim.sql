-- Completes the messages that a claim still holds.
-- Returns  how many were completed.
create or replace function pgqueue._complete_claim(queue pgqueue.queue, held pgqueue.claim)
returns bigint
language plpgsql
as $$
#variable_conflict use_column
declare
    places tid[] := pgqueue._lock_claim(queue, held);
begin
    perform pgqueue._delete_messages(queue, places, 'COMPLETED');
    update pgqueue.claim
       set settled_at = pgqueue.clock(), completed = cardinality(places)
     where consumer = held.consumer and claim = held.claim;
    return cardinality(places);
end
$$;
