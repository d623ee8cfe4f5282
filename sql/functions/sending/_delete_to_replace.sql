-- Deletes a message, whose row this transaction has locked, because another one takes its number. Those that waited behind it in its
-- session can be received then. One that was delivered is no longer its sender's: to replace it takes the right to receive, too.
-- Raises   42501 access denied.
create or replace function pgqueue._delete_to_replace(target pgqueue.queue, number bigint)
returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    places   tid[]  := pgqueue._find_message(target, number);
    sessions text[] := pgqueue._sessions_of(target, places);
begin
    if not pgqueue._may_receive(target.receivers)
       and (exists (select from pgqueue.message where ctid = any (places) and delivery_count > 0)
            or exists (
               select
                 from pgqueue.scheduled_message
                where queue_id = target.id and sequence_number between number and number
                  and not pgqueue._is_sent_for_later(lane)
                order by sequence_number)) then
        perform pgqueue._refuse_access('RECEIVE', target.name);
    end if;
    perform pgqueue._forget_failures(target.id, array[number]);
    delete from pgqueue.message where ctid = any (places);
    delete from pgqueue.scheduled_message
     where ctid = any (array(
               select ctid
                 from pgqueue.scheduled_message
                where queue_id = target.id and sequence_number between number and number
                order by sequence_number));
    perform pgqueue._release_successors(target, sessions);
end
$$;
