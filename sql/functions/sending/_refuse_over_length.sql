-- Raises if a queue has become longer than its bound; for senders of many messages at once.
-- Raises  PQ008 queue full.
create or replace function pgqueue._refuse_over_length(target pgqueue.queue)
returns void
language plpgsql
set enable_seqscan = off
as $$
declare
    held bigint;
begin
    select count(*) into held
      from (select from pgqueue.message where queue_id = target.id
             union all
            select from pgqueue.scheduled_message where queue_id = target.id) as counted;
    if held > target.max_queue_length then
        perform pgqueue._refuse(
            'PQ008', format('queue %I would be overfull: %s messages, and it may hold %s', target.name, held, target.max_queue_length),
            'Send again when some messages have been settled, or raise max_queue_length with pgqueue.alter_queue.');
    end if;
end
$$;
