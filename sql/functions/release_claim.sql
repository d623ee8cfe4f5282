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
    source pgqueue.queue;
    held   pgqueue.claim;
    places tid[];
begin
    select * into held from pgqueue.claim where consumer = known.name and claim = known.claim and settled_at is null;
    if not found then
        return null;
    end if;
    source := pgqueue._queue_of(known);
    places := pgqueue._hold_claim(source, held);
    perform pgqueue._bring_back(pgqueue._uncount(places), settled => true);
    update pgqueue.claim set settled_at = pgqueue.clock() where consumer = known.name and claim = held.claim;
    update pgqueue.consumer set settled_claim = held.claim where name = known.name;
    if source.awaited_until > pgqueue.clock() then
        perform pgqueue._ring(source);
    end if;
    return cardinality(places);
end
$$;
