-- Records when the bucket of a queue with a `max_receive_rate` is full again. A sequence is set at once, and for good: a rollback
-- gives no tokens back, and no version of a row is left behind. The caller has locked the row of the queue's limits.
create or replace function pgqueue._set_full_at(queue_id integer, full_at timestamptz)
returns void
language plpgsql
as $$
declare
    bucket regclass := to_regclass('pgqueue.full_at_' || queue_id);
begin
    if bucket is null then
        perform pgqueue._create_bucket(queue_id);
        bucket := to_regclass('pgqueue.full_at_' || queue_id);
    end if;
    perform setval(bucket, (extract(epoch from full_at) * 1000000)::bigint);
end
$$;
