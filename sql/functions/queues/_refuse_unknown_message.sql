-- Raises  PQ006 message not found, naming the sequence number and the kind of message that was asked for.
create or replace function pgqueue._refuse_unknown_message(queue pgqueue.queue, kind text, sequence_number bigint)
returns void
language plpgsql
as $$
begin
    perform pgqueue._refuse(
        'PQ006', format('queue %I has no %s message %s', queue.name, kind, coalesce(sequence_number::text, 'null')),
        format('Look in pgqueue.%s_messages: it may have been settled, or its time may have come.', kind));
end
$$;
