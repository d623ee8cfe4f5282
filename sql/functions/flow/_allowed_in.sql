-- Returns in how many seconds a queue with limits may hand out the next message: when the next token comes, or when a slot is
-- likely to be free. Nobody is notified of a free slot, so consumers poll, the less often the longer no slot was free: after a
-- tenth of the time since the last message was handed out, within a second. At least a tenth of a second: by then a fast rate
-- has brought several tokens.
create or replace function pgqueue._allowed_in(queue pgqueue.queue)
returns double precision
language plpgsql stable
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgqueue.clock();
    flow   pgqueue.flow;
    pause  double precision := 0.1;
begin
    select * into flow from pgqueue.flow where queue_id = queue.id;
    if queue.max_receive_rate is not null then
        pause := greatest(pause, (1 - pgqueue._tokens(queue, flow, moment)) / queue.max_receive_rate);
    end if;
    if (select count(*) from pgqueue.slot where queue_id = queue.id) >= queue.max_concurrent then
        pause := greatest(pause, least(1, extract(epoch from moment - flow.handed_out_at) / 10));
    end if;
    return pause;
end
$$;
