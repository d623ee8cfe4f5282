-- Attaches this session to a consumer of a queue, for as long as the session lasts. An unknown consumer is created,
-- with nothing claimed.
--
-- Two sessions never work for the same consumer: each session that attaches gets a new `epoch`, which it passes to
-- every later call about claims. From then on, calls with an earlier epoch are refused. Epochs are taken from the
-- clock, so that none is used twice, not even after the consumer was dropped or the database was restored.
-- Returns  the last settled claim, and the epoch.
-- Raises   PQ002 unknown queue, PQ007 invalid argument, PQ009 consumer in use.
-- Locks    the consumer, until the transaction ends.
create or replace function pgqueue.attach_consumer(consumer text, queue text, out settled_claim bigint, out epoch bigint)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    source pgqueue.queue := pgqueue._find_queue(queue, 'RECEIVE');
    known  pgqueue.consumer;
    key    bigint        := hashtextextended(gen_random_uuid()::text, 0);    -- it cannot have been locked before
begin
    if consumer is null or consumer = '' then
        perform pgqueue._refuse_argument('consumer', 'a name', coalesce(quote_literal(consumer), 'null'));
    end if;
    if source.requires_session then
        perform pgqueue._refuse_without_session(source);
    elsif source.fair then
        perform pgqueue._refuse_argument('the queue', 'one without groups', quote_ident(source.name));
    end if;
    select * into known from pgqueue.consumer where name = attach_consumer.consumer;
    if pgqueue._is_attached(known) then
        perform pgqueue._refuse_busy_consumer(consumer);                     -- without waiting for what it does
    end if;
    insert into pgqueue.consumer (name, queue_id, created_at)
    values (consumer, source.id, pgqueue.clock())
        on conflict on constraint consumer_pkey do nothing;
    select * into known from pgqueue.consumer where name = attach_consumer.consumer for update;
    if known.queue_id <> source.id then
        perform pgqueue._refuse_argument(
            'queue', format('that of consumer %s, %s', quote_literal(consumer), (select queue.name from pgqueue.queue where queue.id = known.queue_id)),
            queue);
    end if;
    if pgqueue._is_attached(known) then
        perform pgqueue._refuse_busy_consumer(consumer);
    end if;
    perform pg_advisory_lock(key);
    settled_claim := known.settled_claim;
    epoch         := greatest(known.epoch + 1, (extract(epoch from pgqueue.clock()) * 1000000)::bigint);
    update pgqueue.consumer
       set epoch = attach_consumer.epoch, attached_pid = pg_backend_pid(), attached_key = key
     where name = known.name;
end
$$;
