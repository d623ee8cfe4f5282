-- Deletes messages, whose rows are locked, that are duplicates in the queue they are being forwarded to.
-- Returns  the others.
-- Locks    the message ids, until the transaction ends.
create or replace function pgqueue._drop_duplicates(target pgqueue.queue, places tid[])
returns tid[]
language plpgsql
as $$
#variable_conflict use_column
declare
    arriving   record;
    answers    bigint[];
    duplicates bigint[];
begin
    select array_agg(sequence_number) as numbers, array_agg(message_id) as ids into arriving
      from (select sequence_number, message_id from pgqueue.message where ctid = any (places) order by sequence_number) as message;
    answers := pgqueue._record_message_ids(target, arriving.ids, arriving.numbers);
    if answers = arriving.numbers then
        return places;
    end if;
    perform pgqueue._notice_duplicates(arriving.ids, arriving.numbers, answers);
    duplicates := array(select number from unnest(arriving.numbers, answers) as sent (number, answer) where answer <> number);
    perform pgqueue._forget_failures(queue_id, array_agg(sequence_number)),
            pgqueue._leave_batches(queue_id, array_agg(sequence_number), 'DELETED')
       from pgqueue.message
      where ctid = any (places) and sequence_number = any (duplicates)
      group by queue_id;
    delete from pgqueue.message where ctid = any (places) and sequence_number = any (duplicates);
    return array(select ctid from pgqueue.message where ctid = any (places));
end
$$;
