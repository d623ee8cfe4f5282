-- Returns when the bucket of a queue with a `max_receive_rate` is full again; null when it has handed out nothing yet. It is
-- kept in a sequence, in microseconds. See pgqueue._set_full_at.
create or replace function pgqueue._full_at(queue_id integer)
returns timestamptz
language plpgsql
as $$
begin
    return timestamptz 'epoch'
           + pg_sequence_last_value(to_regclass('pgqueue.full_at_' || queue_id)) * interval '1 microsecond';
end
$$;
