-- Records that a queue with limits hands out messages, whose rows are locked: they take tokens and slots.
create or replace function pgqueue._hand_out(queue pgqueue.queue, places tid[], lock_token uuid, moment timestamptz)
returns void
language plpgsql
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
    update pgqueue.flow
       set handed_out_at = moment,
           full_at       = case when queue.max_receive_rate is null then full_at
                                else moment + interval '1 microsecond' * ceil(
                                     (greatest(queue.max_receive_rate, 1) - pgqueue._tokens(queue, flow, moment) + cardinality(places))
                                     * 1000000 / queue.max_receive_rate)
                           end
     where queue_id = queue.id;
    if queue.max_concurrent is not null then
        insert into pgqueue.slot (queue_id, sequence_number, lock_token)
        select queue.id, sequence_number, _hand_out.lock_token from pgqueue.message where ctid = any (places);
    end if;
end
$$;
