-- Finds violations in messages of any table, and in their numbers; see pgqueue.broken_invariants.
create or replace function pgqueue._find_broken_messages()
returns setof text
language sql stable
as $$
    select format('%s %s of queue %s %s', kind, sequence_number, coalesce(quote_ident(name), queue_id::text), broken)
      from (select 'message', queue_id, sequence_number, position, lane, delivery_count,
                   locked_until, locked_by, lock_token, num_nonnulls(body, binary_body)
              from pgqueue.message
             union all
            select 'scheduled message', queue_id, sequence_number, position, lane, delivery_count,
                   locked_until, locked_by, lock_token, num_nonnulls(body, binary_body)
              from pgqueue.scheduled_message
             union all
            select 'dead letter', queue_id, sequence_number, null, lane, delivery_count,
                   locked_until, locked_by, lock_token, num_nonnulls(body, binary_body)
              from pgqueue.dead_letter
           ) as message (kind, queue_id, sequence_number, position, lane, delivery_count,
                         locked_until, locked_by, lock_token, bodies)
      left join pgqueue.queue on queue.id = queue_id
     cross join lateral (select array[
           case when queue.id is null then 'belongs to no queue' end,
           case when bodies <> 1 then format('has %s bodies', bodies) end,
           case when delivery_count < 0 then 'was delivered less than never' end,
           case when lane <> all (lanes) and lane not between 800 and 1200 and lane <> 2000 then 'is in a lane that is not open' end,
           case when lane >= 800 and lane % 2 <> 0 then 'is deferred, but in the lane of fresh messages' end,
           case when locked_until is not null and lock_token is null and lane <> 2000 then 'is locked without a token' end,
           case when locked_by is not null and lock_token is null then 'has a holder without a token' end,
           case when lock_token is not null and delivery_count < 1 then 'has a holder, but was never delivered' end,
           case when lock_token is not null and kind = 'scheduled message' then 'has a holder, but cannot be received' end,
           case when lane % 2 <> 0 and position is distinct from sequence_number
                then 'is fresh, but does not stand at its number' end]) as rules (found)
     cross join unnest(found) as broken
     where num_nonnulls(variadic found) > 0 and broken is not null
     union all
    select format('queue %s has kept the errors of message %s, which is not there or was never delivered', queue_id, sequence_number)
      from pgqueue.failed_message
     where not exists (
           select
             from (select queue_id, sequence_number from pgqueue.message where lane % 2 = 0
                    union all
                   select queue_id, sequence_number from pgqueue.scheduled_message
                    union all
                   select queue_id, sequence_number from pgqueue.dead_letter) as known
            where known.queue_id = failed_message.queue_id and known.sequence_number = failed_message.sequence_number)
     union all
    select format('number %s of queue %s is that of %s messages', sequence_number, queue_id, messages)
      from (select queue_id, sequence_number, count(*) + (     -- those of priority 0 stand at their numbers
                   select count(*)
                     from pgqueue.message
                    where message.queue_id = used.queue_id and lane = 1 and position = used.sequence_number) as messages
              from (select queue_id, sequence_number from pgqueue.message where lane <> 1
                     union all
                    select queue_id, sequence_number from pgqueue.scheduled_message
                     union all
                    select queue_id, sequence_number from pgqueue.dead_letter) as used
             group by queue_id, sequence_number) as numbered
     where messages > 1
     union all
    select format('queue %I uses number %s, but the last that was handed out is %s', name, highest, last_number)
      from pgqueue.queue
     cross join pgqueue._last_number_drawn() as last_number
     cross join lateral pgqueue._highest_number_in_use(queue, last_number) as highest
     where highest is not null;
$$;
