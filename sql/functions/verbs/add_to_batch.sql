-- Makes messages members of a batch, by their numbers. Only messages that this transaction has sent become members, so each is a member
-- as soon as others see it. The numbers of duplicates are skipped. Messages that a queue has forwarded are found in the other queue.
-- Returns  how many have become members.
-- Raises   PQ002 unknown queue, PQ050 batch not found, PQ051 batch closed; PQ007 invalid argument, when a message is a member of
--          another batch.
-- Locks    the batch against being closed, until the transaction ends. When a queue gets its first member, transactions that change the
--          queue's row wait for each other, as in pgqueue.send.
create or replace function pgqueue.add_to_batch(batch uuid, queue text, sequence_numbers bigint[])
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    source  pgqueue.queue := pgqueue._find_queue(queue, 'SEND');
    known   pgqueue.batch;
    sent    record;
    members bigint;
begin
    select * into known from pgqueue.batch where id = add_to_batch.batch for key share;
    if not found then
        perform pgqueue._refuse_unknown_batch(add_to_batch.batch);
    elsif known.closed_at is not null then
        perform pgqueue._refuse(
            'PQ051', format('batch %s was closed at %s', known.id, known.closed_at), 'Create another one with pgqueue.create_batch.');
    end if;
    select coalesce(array_agg(queue_id), '{}') as queue_ids, coalesce(array_agg(number), '{}') as numbers into sent
      from pgqueue._find_sent(source, sequence_numbers);
    perform pgqueue._set_has_batches(sent.queue_ids);
    with added as (
        insert into pgqueue.batch_member (queue_id, sequence_number, batch_id, stripe)
        select queue_id, number, known.id, number % known.open_stripes
          from unnest(sent.queue_ids, sent.numbers) as member (queue_id, number)
            on conflict on constraint batch_member_pkey do nothing
        returning batch_id, stripe
    ), changed as (
        insert into pgqueue.batch_change (batch_id, stripe, added)
        select batch_id, stripe, count(*) from added group by batch_id, stripe
        returning added)
    select coalesce(sum(added), 0) into members from changed;
    if members < cardinality(sent.numbers) then              -- one that has replaced another is a member already
        perform pgqueue._refuse_argument(
                    'sequence_numbers', format('of messages that are in no other batch than %s', known.id),
                    format('message %s, which is in batch %s', number, batch_id))
           from unnest(sent.queue_ids, sent.numbers) as member (queue_id, number)
          cross join lateral (
                select batch_id
                  from pgqueue.batch_member
                 where batch_member.queue_id = member.queue_id and sequence_number = number
                 limit 1) as held
          where batch_id <> known.id;
    end if;
    return members;
end
$$;
