-- Takes a turn, unless this session of the database has taken one for the queue within the last second; see
-- pgqueue._take_turn. If the clock went back since, sessions that would wait for the time of before need not.
create or replace function pgqueue._take_turn_when_due(queue pgqueue.queue)
returns void
language plpgsql
as $$
declare
    memory constant text             := 'pgqueue.turn_' || queue.id;
    moment          double precision := extract(epoch from pgqueue.clock());
    last            double precision := nullif(current_setting(memory, true), '');
begin
    if last is null or abs(moment - last) >= 1 then
        perform set_config(memory, moment::text, false);
        if moment < last then
            perform pgqueue._hasten_sessions(queue.id);
        end if;
        perform pgqueue._take_turn(queue);
    end if;
end
$$;
