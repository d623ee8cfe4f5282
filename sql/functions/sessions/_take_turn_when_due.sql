-- Takes a turn, unless this session of the database has taken one for the queue within the last second; see
-- pgqueue._take_turn. If the clock went back since, sessions that would wait for the time of before need not.
create or replace function pgqueue._take_turn_when_due(queue_id integer)
returns void
language plpgsql
as $$
#variable_conflict use_variable
declare
    memory constant text             := 'pgqueue.turn_' || queue_id;
    moment          double precision := extract(epoch from pgqueue.clock());
    queue           pgqueue.queue;
    last            double precision := nullif(current_setting(memory, true), '');
begin
    if last is null or abs(moment - last) >= 1 then
        perform set_config(memory, moment::text, false);
        if moment < last then
            perform pgqueue._hasten_sessions(queue_id);
        end if;
        select * into queue from pgqueue.queue where id = queue_id;
        perform pgqueue._take_turn(queue);
    end if;
end
$$;
