-- Returns the schedule with this name, and locks its row.
-- Raises   PQ030 unknown schedule.
-- Locks    the schedule; waits for a transaction that is firing it.
create or replace function pgqueue._find_schedule(name text)
returns pgqueue.schedule
language plpgsql
as $$
#variable_conflict use_column
declare
    known pgqueue.schedule;
begin
    select * into known from pgqueue.schedule where name = _find_schedule.name for update;
    if not found then
        perform pgqueue._refuse(
            'PQ030', format('schedule %s does not exist', coalesce(quote_ident(_find_schedule.name), 'null')),
            'Create it with pgqueue.create_schedule, or list what exists in pgqueue.schedules.');
    end if;
    return known;
end
$$;
