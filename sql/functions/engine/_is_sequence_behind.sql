-- Returns whether a number is in use that the sequence has yet to hand out: the sequence went back.
create or replace function pgqueue._is_sequence_behind()
returns boolean
language plpgsql stable
as $$
declare
    last  bigint := pgqueue._last_number_drawn();
    known pgqueue.queue;
begin
    if exists (select from pgqueue.progress where horizon > last) or exists (select from pgqueue.front where horizon > last) then
        return true;
    end if;
    for known in select * from pgqueue.queue loop
        if pgqueue._highest_number_in_use(known, last) is not null then
            return true;
        end if;
    end loop;
    return false;
end
$$;
