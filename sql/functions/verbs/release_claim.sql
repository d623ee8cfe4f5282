-- Gives back the messages that a consumer's claim holds: any receiver gets them at once, and this delivery is not
-- counted. Meant for a stream that was given up; the view pgqueue.consumers shows the consumer, claim and epoch to
-- pass.
-- Returns  the number of messages; 0 when the claim is settled.
-- Raises   PQ002 unknown consumer, PQ007 invalid argument, PQ010 consumer fenced.
-- Locks    the consumer and the messages, until the transaction ends.
create or replace function pgqueue.release_claim(consumer text, claim bigint default null, epoch bigint default null)
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    known  pgqueue.consumer := pgqueue._find_consumer(consumer, epoch);
    held   pgqueue.claim    := pgqueue._find_open_claim(known, claim);
    source pgqueue.queue;
    places tid[];
begin
    if held.claim is null then
        return 0;
    end if;
    source := pgqueue._consumer_queue(known);
    places := pgqueue._lock_claim(source, held);
    perform pgqueue._redeliver(pgqueue._uncount_delivery(places), settled => true);
    update pgqueue.claim set settled_at = pgqueue.clock() where consumer = known.name and claim = held.claim;
    update pgqueue.consumer set settled_claim = held.claim where name = known.name;
    if source.awaited_until > pgqueue.clock() then
        perform pgqueue._notify(source);
    end if;
    return cardinality(places);
end
$$;
