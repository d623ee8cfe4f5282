-- Drops a subscription with all its messages and dead letters. The next sweep removes messages that are being sent meanwhile.
-- Raises  PQ002 unknown queue, PQ040 unknown topic; PQ007 invalid argument, when other queues forward to it.
-- Locks   as pgqueue.drop_queue; senders do not wait.
create or replace function pgqueue.drop_subscription(topic text, subscription text)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgqueue._check_admin(topic, 'topic');
    perform pgqueue.drop_queue(pgqueue._find_subscription(topic, subscription));
end
$$;
