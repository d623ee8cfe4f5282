-- Forgets a session that is not locked and has no messages: it does not wait any more, and its row is deleted, unless
-- it has state, or a transaction of its last holder keeps it, or its cursor was looked after, or its lock expired,
-- within the last hour: the cursor spares the next holder what was settled before, and the last holder may still write
-- the state and settle deferred messages. A later receiver that finds the session empty, or a sweep, deletes it then.
create or replace function pgqueue._forget_session(known pgqueue.session)
returns void
language plpgsql
as $$
begin
    if pgqueue._forget_waiting(known) then
        with gone as (
            delete from pgqueue.session
             where ctid = any (array(
                       select ctid
                         from pgqueue.session
                        where queue_id = known.queue_id and session_id = known.session_id
                          and num_nonnulls(state, binary_state) = 0
                          and (horizon = 0 or horizon_taken_at not between pgqueue.clock() - interval '1 hour' and pgqueue.clock())
                          and (locked_until is null or locked_until <= pgqueue.clock() - interval '1 hour')
                          and not exists (
                              select
                                from pgqueue.message_group as used
                               where used.queue_id = known.queue_id and group_id = known.session_id and full_at > pgqueue.clock())
                          for update skip locked))
            returning queue_id, session_id)
        delete from pgqueue.message_group as used using gone where used.queue_id = gone.queue_id and group_id = session_id;
    end if;
end
$$;
