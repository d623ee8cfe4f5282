-- Checks whether another queue takes messages that are to be moved there, as if they were sent to it.
-- Returns  the numbers of those that it does not take because it knows their message ids from others.
-- Raises   PQ004 queue disabled, PQ005 message too large, PQ007 invalid argument, PQ008 queue full.
-- Locks    the message ids where it detects duplicates, until the transaction ends; waits for open transactions that
--          send the same.
create or replace function pgqueue._check_arrival(source pgqueue.queue, target pgqueue.queue, places tid[], scheduled tid[])
returns bigint[]
language plpgsql
as $$
declare
    duplicates bigint[] := '{}';
    answers    bigint[];
    known      record;
begin
    if target.status in ('DISABLED', 'SEND_DISABLED') then
        perform pgqueue._refuse_disabled(target);
    end if;
    if target.max_message_size is not null then
        perform pgqueue._refuse_size(target, format('message %s, moved from queue %I,', sequence_number, source.name), size)
           from (select sequence_number, octet_length(coalesce(binary_body, convert_to(body::text, 'UTF8')))
                                         + coalesce(octet_length(application_properties::text), 0) as size
                   from pgqueue._messages_at(places, scheduled)) as measured
          where size > target.max_message_size;
    end if;
    if target.requires_session or target.fair then
        perform pgqueue._refuse_argument(
                    format('session_id of message %s', sequence_number),
                    format('given, because queue %I requires sessions or is fair', target.name), session_id)
           from pgqueue._messages_at(places, scheduled)
          where coalesce(session_id, '') = '';
    end if;
    if target.requires_duplicate_detection then
        select array_agg(sequence_number order by sequence_number) as numbers, array_agg(message_id order by sequence_number) as ids
          into known
          from pgqueue._messages_at(places, scheduled);
        answers    := pgqueue._record_message_ids(target, known.ids, known.numbers);
        duplicates := array(select number from unnest(known.numbers, answers) as sent (number, answer) where answer <> number);
    end if;
    if target.max_queue_length is not null and target.forward_to is null then
        perform pgqueue._check_queue_length(
            target, cardinality(places) + cardinality(scheduled) - cardinality(duplicates), pgqueue._last_number_drawn());
    end if;
    return duplicates;
end
$$;
