-- Returns who may do what: a row for each role and right. The queue may be a topic; it is null where the right is for all queues, because the
-- role is a member of one of the groups pgqueue_sender, pgqueue_receiver, pgqueue_monitor and pgqueue_admin. A role that
-- was dropped since is shown, too: revoke what it had, lest a new role of that name has it. Superusers, and members of
-- pgqueue_owner, may do everything; they are not shown.
-- Raises   42501 access denied.
create or replace function pgqueue.grants()
returns table (role text, may text, queue text)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform pgqueue._check_monitor();
    return query
        select named, 'SEND', name from pgqueue.queue cross join unnest(senders) as named
         union all
        select named, 'SEND', name from pgqueue.topic cross join unnest(senders) as named
         union all
        select named, 'RECEIVE', name from pgqueue.queue cross join unnest(receivers) as named
         union all
        select pg_get_userbyid(member)::text, may, null
          from unnest('{SEND,RECEIVE,MONITOR,ADMIN}'::text[], '{pgqueue_sender,pgqueue_receiver,pgqueue_monitor,pgqueue_admin}'::text[]) as known (may, named)
          join pg_auth_members on roleid = to_regrole(named)
         where member <> to_regrole('pgqueue_owner')
         order by 1, 3 nulls first, 2;
end
$$;
