-- Renews the locks of an open claim: each lasts `lock_duration` (the queue's own when null) from now. Rows that an open
-- transaction holds are left out; usually it is their owner's. Does not wait.
-- Returns  how many locks were renewed; 0 when the claim is settled.
-- Raises   PQ002 unknown consumer, PQ007 invalid argument, PQ010 consumer fenced.
create or replace function pgqueue.renew_claim(
    consumer text, lock_duration interval default null, claim bigint default null, epoch bigint default null)
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    known  pgqueue.consumer;
    source pgqueue.queue;
    held   pgqueue.claim;
    places tid[];
begin
    perform pgqueue._check_duration('lock_duration', lock_duration);
    select * into known from pgqueue.consumer where name = renew_claim.consumer;
    if not found then
        perform pgqueue._refuse_unknown_consumer(consumer);
    end if;
    perform pgqueue._check_consumer(known, epoch);
    held := pgqueue._find_open_claim(known, claim);
    if held.claim is null then
        return 0;
    end if;
    source := pgqueue._consumer_queue(known);
    places := pgqueue._lock_claim(source, held, free => true);
    perform pgqueue._extend_locks(places, pgqueue.clock() + coalesce(lock_duration, source.lock_duration));
    perform pgqueue._notify_early(source, lock_duration);
    return cardinality(places);
end
$$;
