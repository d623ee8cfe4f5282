-- Checks the arguments of a receive, and that the queue's status allows it.
-- Raises  PQ004 queue disabled, PQ007 invalid argument.
create or replace function pgqueue._check_receive(queue pgqueue.queue, max_messages integer, lock_duration interval)
returns void
language plpgsql
as $$
begin
    if queue.status in ('DISABLED', 'RECEIVE_DISABLED') then
        perform pgqueue._refuse_disabled(queue);
    end if;
    if max_messages is null or max_messages < 1 then
        perform pgqueue._refuse_argument('max_messages', 'a positive whole number', max_messages::text);
    end if;
    perform pgqueue._check_duration('lock_duration', lock_duration);
end
$$;
