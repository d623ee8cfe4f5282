-- Returns, in the order of these groups, how many messages each may hand out now, at most `share`. A group that another receive holds may hand
-- out none. Slots are counted as in pgqueue._slots_taken, tokens as in pgqueue._allowance; where fewer than `share` slots are recorded as
-- free, the recorded locks are checked.
-- Locks    the groups against other receives, until the transaction ends; skips those that others hold.
create or replace function pgqueue._rooms_in_groups(source pgqueue.queue, ids text[], share integer, moment timestamptz)
returns pgqueue.group_room[]
language plpgsql
as $$
#variable_conflict use_column
declare
    free    tid[];
    own     text[];                                            -- the groups that this receive holds
    known   record;
    checked boolean := false;
begin
    free := pgqueue._free_sessions(source.id, ids);            -- the others are held by other receives
    own := array(select session_id from pgqueue.session where ctid = any (free));
    loop
        select array_agg(row(id, places, next, allowed.max_concurrent, rate, turn, full_at, slots.numbers, slots.tokens)::pgqueue.group_room) as rooms,
               bool_or(is_late) as has_late
          into known
          from unnest(ids) as given (id)
          left join lateral (
               select max_concurrent, max_receive_rate
                 from pgqueue.group_limit
                where queue_id = source.id and group_id = id
                limit 1) as other on true
          left join lateral (
               select turn, full_at, numbers, tokens
                 from pgqueue.message_group
                where queue_id = source.id and group_id = id
                order by turn desc
                limit 1) as used on true
         cross join lateral (
               select nullif(coalesce(other.max_concurrent, source.max_concurrent_per_group), 0) as max_concurrent,
                      nullif(coalesce(other.max_receive_rate, source.max_receive_rate_per_group), 0) as rate) as allowed
         cross join lateral (
               select case when rate is not null then pgqueue._tokens(rate, full_at, moment) + rate / 1000000 end as ready,  -- see pgqueue._allowance
                      allowed.max_concurrent - coalesce(cardinality(used.numbers), 0) < share as is_short) as state
         cross join lateral (
               select array_agg(number) as numbers, array_agg(token) as tokens, min(locked_until) as until,
                      bool_or(locked_until is null or locked_until <= moment) as is_late
                 from unnest(used.numbers, used.tokens) as slot (number, token)
                cross join lateral (                          -- see pgqueue._find_by_token
                      select locked_until
                        from pgqueue.message
                       where queue_id = source.id and lane % 2 = 0 and sequence_number between number and number and lock_token = token
                       order by sequence_number) as lock
                where is_short) as held
         cross join lateral (
               select coalesce(case when is_short then held.numbers else used.numbers end, '{}') as numbers,
                      coalesce(case when is_short then held.tokens else used.tokens end, '{}') as tokens) as slots
         cross join lateral (
               select case when id = any (own)
                           then greatest(least(share, floor(ready), allowed.max_concurrent - cardinality(slots.numbers)), 0)::integer
                           else 0 end as places,
                      case when id = any (own)
                           then greatest(case when ready < 1 then moment + interval '1 second' * (1 - ready) / rate end,
                                         case when allowed.max_concurrent <= cardinality(slots.numbers) then until end) end as next) as room;
        exit when checked or known.has_late is not true;
        perform pgqueue._held_locks(source, numbers, tokens) from unnest(known.rooms);      -- ends the locks whose time is over
        checked := true;
    end loop;
    return known.rooms;
end
$$;
