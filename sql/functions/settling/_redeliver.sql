-- Moves locked rows into the redelivery lanes of their priorities, in the order they were sent; a message of a session keeps
-- its place in it. A `settled` lock is over; a lock that has merely expired keeps its token, so that its last holder may still
-- settle the message.
create or replace function pgqueue._redeliver(places tid[], settled boolean)
returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
    perform pg_current_xact_id();        -- take a transaction id before drawing a number, as in pgqueue.send
    with ordered as materialized (
        select ctid as place from pgqueue.message where ctid = any (places) order by sequence_number
    ), placed as materialized (
        select place, nextval('pgqueue.sequence_number') as position from ordered)
    update pgqueue.message
       set lane         = lane & ~1,
           position     = case when lane = 2000 then message.position else placed.position end,
           locked_until = null,
           lock_token   = case when settled then null else lock_token end,
           locked_by    = case when settled then null else locked_by end
      from placed
     where ctid = placed.place;
end
$$;
