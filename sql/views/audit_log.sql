-- Actions on queues and messages in the dashboard: who, when, and how many messages each concerned. Those on a
-- queue that was dropped since are for those who may monitor all.
create or replace view pgqueue.audit_log with (security_barrier) as
select audited_action.id, acted_at, role, action, audited_action.queue, messages, details
  from pgqueue.audited_action
  left join pgqueue.queue on name = audited_action.queue
 where pgqueue._may_see_locks(coalesce(receivers, '{}'));
