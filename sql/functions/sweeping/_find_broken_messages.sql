-- Finds violations within single messages of any table; see pgqueue.broken_invariants.
create or replace function pgqueue._find_broken_messages()
returns setof text
language sql stable
set search_path = pg_catalog, pg_temp
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
     cross join lateral (values
           (queue.id is null, 'belongs to no queue'),
           (bodies <> 1, format('has %s bodies', bodies)),
           (delivery_count < 0, 'was delivered less than never'),
           (lane <> all (lanes) and lane not between 800 and 1200, 'is in a lane that is not open'),
           (lane >= 800 and lane % 2 <> 0, 'is deferred, but in the lane of fresh messages'),
           (locked_until is not null and lock_token is null, 'is locked without a token'),
           (locked_by is not null and lock_token is null, 'has a holder without a token'),
           (lock_token is not null and delivery_count < 1, 'has a holder, but was never delivered'),
           (lock_token is not null and kind = 'scheduled message', 'has a holder, but cannot be received'),
           (lane % 2 <> 0 and position is distinct from sequence_number, 'is fresh, but does not stand at its number')
           ) as rule (is_broken, broken)
     where is_broken;
$$;
