-- Drops a consumer. Messages that it has claimed and not settled are given back, as by pgqueue.release_claim.
-- Raises  PQ002 unknown consumer, PQ007 invalid argument, PQ009 consumer in use, PQ010 consumer fenced.
create or replace function pgqueue.drop_consumer(consumer text, epoch bigint default null)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    known pgqueue.consumer := pgqueue._find_consumer(consumer, epoch);
begin
    if pgqueue._is_attached(known) then
        perform pgqueue._refuse_busy_consumer(consumer);
    end if;
    if exists (select from pgqueue.queue where queue.id = known.queue_id) then
        perform pgqueue.release_claim(consumer, known.claim, epoch);
    end if;
    delete from pgqueue.consumer where name = drop_consumer.consumer;
end
$$;
