-- Removes the rows of these groups from those that wait, except the rows at these places: at most a thousand of each group. Several senders
-- may each have added one. Rows that a sender holds stay, and so do those that this transaction has written (pgqueue._forget_waiting).
-- Locks    the rows, until the transaction ends; skips those that others hold.
create or replace function pgqueue._merge_waiting(queue_id integer, places tid[], ids text[])
returns void
language plpgsql
as $$
#variable_conflict use_column
begin
    if current_setting('transaction_isolation') = 'read committed' then
        delete from pgqueue.waiting_session
         where ctid = any (array(
                   select place
                     from unnest(ids) as id
                    cross join lateral (
                          select ctid as place
                            from pgqueue.waiting_session
                           where queue_id = _merge_waiting.queue_id and session_id between id and id
                             and changed_by <> pg_current_xact_id() and ctid <> all (places)
                           order by session_id desc, changed_by desc
                           limit 1000
                             for update skip locked) as other));
    end if;
end
$$;
