-- Returns the dead letters of a queue from a sequence number on, in that order. Below the first number that is known only those
-- that came since are read; see pgqueue._pass_front. If a thousand came, all are read from the number on. A plain query, so that it is
-- inlined.
create or replace function pgqueue._dead_letters_from(queue_id integer, from_number bigint)
returns setof pgqueue.dead_letter
language sql stable
as $$
    with front as materialized (
        select front.*
          from pgqueue._front(_dead_letters_from.queue_id, 'DEAD_LETTERED') as front
    ), arrived as materialized (
        select late.*
          from front
         cross join lateral (
               select *
                 from pgqueue.dead_letter
                where dead_letter.queue_id::bigint = _dead_letters_from.queue_id and dead_letter.position > front.reached
                  and _dead_letters_from.from_number < front.first_number
                order by dead_letter.position
                limit (select 1000)) as late
    ), known as materialized (
        select first_number from front where (select count(*) from arrived) < 1000
    )
    (select *
       from arrived
      where sequence_number >= _dead_letters_from.from_number and sequence_number < (select first_number from known)
      order by sequence_number, position)
     union all
    (select *
       from pgqueue.dead_letter
      where dead_letter.queue_id = _dead_letters_from.queue_id
        and sequence_number >= _dead_letters_from.from_number and sequence_number >= coalesce((select first_number from known), 0)
      order by sequence_number, position
      limit (select null::bigint));                           -- no limit, but the planner takes the order from the index
$$;
