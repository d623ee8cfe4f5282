-- Records in pgqueue.audit_log what the caller does to a queue or to `messages` of its messages, in the transaction
-- that does it: both are committed, or neither. Recording takes the same right as the action: send, cancel and
-- reschedule that to send, resubmit, delete, stop and move that to receive, all others that of an administrator.
-- Besides, the role that has logged in must be one that may monitor, as that of the dashboard: a sender with a
-- connection of its own writes nothing here. Sweeps delete entries that are a year old.
-- Raises  PQ002 unknown queue, PQ007 invalid argument, 42501 access denied.
create or replace function pgqueue.record_action(action text, queue text, messages bigint default null, details jsonb default null)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    needed text := case when action in ('send', 'cancel', 'reschedule') then 'SEND'
                        when action in ('resubmit', 'delete', 'stop', 'move') then 'RECEIVE'
                        else 'ADMIN' end;
begin
    if needed = 'ADMIN' then
        perform pgqueue._check_admin(queue);
        perform pgqueue._find_queue(queue, 'SETTINGS');
    else
        perform pgqueue._find_queue(queue, needed);
    end if;
    if not pg_has_role(session_user, current_user, 'usage')
       and not exists (
           select
             from pg_roles
            where rolname in ('pgqueue_monitor', 'pgqueue_receiver', 'pgqueue_admin') and pg_has_role(session_user, oid, 'usage')) then
        perform pgqueue._refuse_access('MONITOR', queue);
    end if;
    if action is null or length(action) not between 1 and 100 then
        perform pgqueue._refuse_argument('action', 'a text of 1 to 100 characters', coalesce('one of ' || length(action), 'null'));
    elsif octet_length(details::text) > 32768 then
        perform pgqueue._refuse_argument('details', 'at most 32768 bytes', octet_length(details::text)::text);
    elsif jsonb_typeof(details) <> 'object' or jsonb_path_exists(details, 'strict $.**{4 to last}') then
        perform pgqueue._refuse_argument('details', 'a JSON object, nested three levels at most', 'another value');
    end if;
    perform pgqueue._repair_ids('pgqueue.audited_action');
    insert into pgqueue.audited_action (acted_at, role, action, queue, messages, details)
    values (pgqueue.clock(), pgqueue._caller(), record_action.action, record_action.queue, record_action.messages, record_action.details);
end
$$;
