-- Forgets a consumer; what it has claimed and not settled is given back, as pgqueue.release_claim does.
-- Raises  PQ002 unknown consumer, PQ009 consumer in use.
create or replace function pgqueue.drop_consumer(consumer text)
returns void
language plpgsql
as $$
begin
    perform pgqueue._find_consumer(consumer);
    if not pg_try_advisory_xact_lock(hashtextextended('pgqueue.consumer ' || consumer, 0)) then
        perform pgqueue._refuse_busy_consumer(consumer);
    end if;
    if exists (select from pgqueue.consumer join pgqueue.queue on queue.id = queue_id where consumer.name = drop_consumer.consumer) then
        perform pgqueue.release_claim(consumer);
    end if;
    delete from pgqueue.consumer where name = drop_consumer.consumer;
end
$$;
