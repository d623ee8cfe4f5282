-- Records that a queue with limits hands out messages, whose rows are locked: they take tokens and slots.
create or replace function pgqueue._hand_out(queue pgqueue.queue, places tid[], lock_token uuid, moment timestamptz)
returns void
language plpgsql
as $$
declare
    tokens double precision;
begin
    if places = '{}' then
        return;
    end if;
    if queue.max_receive_rate is not null then
        tokens := pgqueue._tokens(queue.max_receive_rate, pgqueue._full_at(queue.id), moment);
        perform pgqueue._set_full_at(queue.id, moment + interval '1 microsecond' * ceil(
            (greatest(queue.max_receive_rate, 1) - tokens + cardinality(places)) * 1000000 / queue.max_receive_rate));
    end if;
    if queue.max_concurrent is not null then
        perform pgqueue._take_slots(queue, places, lock_token, moment);
    end if;
end
$$;
