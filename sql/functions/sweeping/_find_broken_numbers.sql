-- Finds violations in the numbers of messages; see pgqueue.broken_invariants.
create or replace function pgqueue._find_broken_numbers()
returns setof text
language sql stable
as $$
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
