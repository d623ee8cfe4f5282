-- Creates what a queue with limits needs, unless it is there: the row that receives lock, the end of its slots, the sequence
-- for its bucket. Existing rows may be held by a receiver, and are left alone.
create or replace function pgqueue._create_limits(queue pgqueue.queue)
returns void
language plpgsql
as $$
#variable_conflict use_column
begin
    if num_nonnulls(queue.max_receive_rate, queue.max_concurrent) > 0
       and not exists (select from pgqueue.flow where queue_id = queue.id) then
        insert into pgqueue.flow (queue_id) values (queue.id);
        insert into pgqueue.slot (queue_id, position, first_position) values (queue.id, 1, 1);
    end if;
    if queue.max_receive_rate is not null then
        perform pgqueue._create_bucket(queue.id);
    end if;
end
$$;
