-- Forwards messages, whose rows are locked, from a queue to the next one, and on to the last of the chain. A message that
-- was forwarded four times already becomes a dead letter of the queue where it is.
-- Raises  what pgqueue._move_to_queue raises.
-- Locks   the queues on the way against being dropped, until the transaction ends.
create or replace function pgqueue._forward(source pgqueue.queue, places tid[], arrive_as text)
returns void
language plpgsql
set plan_cache_mode = force_generic_plan
as $$
declare
    target  pgqueue.queue;
    stopped tid[];
begin
    while source.forward_to is not null loop
        stopped := array(select ctid from pgqueue.message where ctid = any (places) and hops >= 4);
        if stopped <> '{}' then
            perform pgqueue._move_to_dead_letters(
                source, stopped, 'MaxTransferHopCountExceeded',
                format('it was forwarded 4 times, and queue %I forwards it again', source.name), may_forward => false);
            places := array(select ctid from pgqueue.message where ctid = any (places));
        end if;
        exit when places = '{}';
        perform from pgqueue.forwarding_target where queue_id = source.forward_to for key share;
        if found then
            select * into target from pgqueue.queue where id = source.forward_to;
            places := pgqueue._move_to_queue(source, target, places, arrive_as);
            arrive_as := case arrive_as when 'DEAD' then 'DEAD' else 'SENT' end;
            source := target;
        else                             -- it was dropped, after the source had been changed
            select * into source from pgqueue.queue where id = source.id;
        end if;
    end loop;
end
$$;
