-- Returns a consumer, its row locked until the transaction ends, for the session that attached last.
-- Raises   PQ002 unknown consumer, PQ007 invalid argument, PQ010 consumer fenced.
create or replace function pgqueue._find_consumer(name text, epoch bigint)
returns pgqueue.consumer
language plpgsql
as $$
declare
    known pgqueue.consumer;
begin
    select * into known from pgqueue.consumer where consumer.name = _find_consumer.name for update;
    if not found then
        perform pgqueue._refuse_unknown_consumer(name);
    end if;
    perform pgqueue._check_consumer(known, epoch);
    return known;
end
$$;
