-- Records in pgqueue.audit_log what the caller does to a queue or to `messages` of its messages, in the transaction that does
-- it: both are committed, or neither.
-- Raises  PQ002 unknown queue.
create or replace function pgqueue.record_action(action text, queue text, messages bigint default null, details jsonb default null)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform pgqueue._find_queue(queue, 'SETTINGS');
    perform pgqueue._repair_ids('pgqueue.audited_action');
    insert into pgqueue.audited_action (acted_at, role, action, queue, messages, details)
    values (pgqueue.clock(), pgqueue._caller(), record_action.action, record_action.queue, record_action.messages, record_action.details);
end
$$;
