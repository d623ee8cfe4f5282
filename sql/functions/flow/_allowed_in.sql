-- Returns in how many seconds a queue with limits may hand out the next message: when the next token comes, or when a slot is
-- likely to be free. A free slot sends no notification, so consumers poll, the less often the longer no slot was free: after a
-- tenth of the time since the last message was handed out, within a second. At least a tenth of a second: by then a fast rate
-- has brought several tokens.
create or replace function pgqueue._allowed_in(queue pgqueue.queue)
returns double precision
language plpgsql stable
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgqueue.clock();
    taken  record;
    pause  double precision := 0.1;
begin
    if queue.max_receive_rate is not null then
        pause := greatest(pause, (1 - pgqueue._tokens(queue.max_receive_rate, pgqueue._full_at(queue.id), moment)) / queue.max_receive_rate);
    end if;
    if queue.max_concurrent is not null then
        select count(*) as slots, max(taken_at) as last_at into taken from pgqueue._slots(queue.id);
        if taken.slots >= queue.max_concurrent then
            pause := greatest(pause, least(1, extract(epoch from moment - taken.last_at) / 10));
        end if;
    end if;
    return pause;
end
$$;
