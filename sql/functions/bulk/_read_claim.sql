-- Returns the messages of a claim whose sequence numbers lie from `low` up to `high`: the fresh ones by their positions,
-- the others by their numbers. A message that was returned after its lock expired, and that no other receiver has, is
-- found by its number. A plain query, so that it is inlined and reads only the columns that its caller wants.
-- For clients of the version before, with rights on the tables; others read pgqueue._claimed_message.
create or replace function pgqueue._read_claim(
    queue_id integer, fresh_lanes smallint[], low bigint, high bigint, token uuid)
returns setof pgqueue.message
language sql stable
begin atomic
    select message.*
      from pgqueue.message
     where message.queue_id = _read_claim.queue_id and lane = any (fresh_lanes) and position >= low and position < high
       and lock_token = token
     union all
    select message.*
      from pgqueue.message
     where message.queue_id = _read_claim.queue_id and lane % 2 = 0 and sequence_number >= low and sequence_number < high
       and lock_token = token;
end;
