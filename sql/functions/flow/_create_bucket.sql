-- Creates the sequence for the bucket of a queue with a `max_receive_rate`, unless there is one. pgqueue.create_queue and
-- pgqueue.alter_queue do so; a receive only where it was left behind, as by logical replication.
create or replace function pgqueue._create_bucket(queue_id integer)
returns void
language plpgsql
as $$
begin
    if to_regclass('pgqueue.full_at_' || queue_id) is null then
        execute format('create sequence pgqueue.full_at_%s', queue_id);
    end if;
end
$$;
