-- Records that groups with limits hand out messages, whose rows are locked: takes the slots and the tokens of the groups.
create or replace function pgqueue._record_in_groups(
    source pgqueue.queue, rooms pgqueue.group_room[], numbers bigint[], nths bigint[], lock_token uuid, moment timestamptz)
returns void
language plpgsql
as $$
#variable_conflict use_column
begin
    with given as materialized (
        select nth, array_agg(number) as numbers, array_agg(_record_in_groups.lock_token) as tokens
          from unnest(_record_in_groups.numbers, nths) as found (number, nth)
         group by nth
    ), changed as materialized (
        select group_id, turn,
               case when rate is not null
                    then moment + interval '1 microsecond' * ceil(
                         (greatest(rate, 1) - pgqueue._tokens(rate, full_at, moment) + cardinality(given.numbers)) * 1000000 / rate)
                    end as full_at,
               case when max_concurrent is not null then room.numbers || given.numbers end as numbers,
               case when max_concurrent is not null then room.tokens || given.tokens end as tokens
          from unnest(rooms) with ordinality as room (group_id, places, next, max_concurrent, rate, turn, full_at, numbers, tokens, nth)
          join given using (nth)
         where num_nonnulls(max_concurrent, rate) > 0
    ), added as (
        insert into pgqueue.message_group (queue_id, group_id, turn, full_at, numbers, tokens)
        select source.id, group_id, 0, full_at, numbers, tokens from changed where turn is null)
    update pgqueue.message_group as known
       set turn = known.turn + 1, full_at = changed.full_at, numbers = changed.numbers, tokens = changed.tokens
      from changed
     cross join lateral (                                     -- one by one: a join may read all groups
           select ctid as place
             from pgqueue.message_group as newest
            where newest.queue_id = source.id and newest.group_id = changed.group_id
            order by newest.turn desc
            limit 1) as newest
     where known.ctid = place;
end
$$;
