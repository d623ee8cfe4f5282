-- Gives back what the open claim of a consumer holds: it is delivered again at once, to whoever receives, and this
-- delivery is not counted. For a stream that was given up.
-- Returns  how many messages; null when no claim is open.
-- Raises   PQ002 unknown consumer.
-- Locks    the messages, until the transaction ends.
create or replace function pgqueue.release_claim(consumer text)
returns bigint
language plpgsql
as $$
#variable_conflict use_column
declare
    known  pgqueue.consumer := pgqueue._find_consumer(consumer);
    held   pgqueue.claim;
    places tid[];
begin
    select * into held from pgqueue.claim where consumer = known.name and claim = known.claim and settled_at is null;
    if not found then
        return null;
    end if;
    places := pgqueue._hold_claim(pgqueue._queue_of(known), held);
    perform pgqueue._bring_back(pgqueue._uncount(places), settled => true);
    update pgqueue.claim set settled_at = pgqueue.clock(), completed = 0 where consumer = known.name and claim = held.claim;
    update pgqueue.consumer set settled_claim = held.claim where name = known.name;
    return cardinality(places);
end
$$;
