-- Renews the locks of the open claim of a consumer: they last `lock_duration`, the queue's own when null, from now. Rows
-- that an open transaction holds are left out, it is their owner's as a rule.
-- Returns  how many were renewed; null when no claim is open.
-- Raises   PQ002 unknown consumer, PQ007 invalid argument.
create or replace function pgqueue.renew_claim(consumer text, lock_duration interval default null)
returns bigint
language plpgsql
as $$
#variable_conflict use_column
declare
    known  pgqueue.consumer;
    source pgqueue.queue;
    held   pgqueue.claim;
    places tid[];
begin
    if lock_duration <= interval '0' then
        perform pgqueue._refuse_argument('lock_duration', 'positive', lock_duration::text);
    end if;
    select * into known from pgqueue.consumer where name = renew_claim.consumer;
    if not found then
        perform pgqueue._find_consumer(consumer);
    end if;
    select * into held from pgqueue.claim where consumer = known.name and claim = known.claim and settled_at is null;
    if not found then
        return null;
    end if;
    source := pgqueue._queue_of(known);
    places := pgqueue._hold_claim(source, held, free => true);
    perform pgqueue._prolong(places, pgqueue.clock() + coalesce(lock_duration, source.lock_duration));
    return cardinality(places);
end
$$;
