-- Returns how far the cursor of a lane may move: to just before the first free message, and at most to the horizon.
create or replace function pgqueue._cursor_limit(progress pgqueue.progress)
returns bigint
language plpgsql
as $$
#variable_conflict use_column
begin
    return coalesce(
        (select position - 1
           from pgqueue.message
          where queue_id = progress.queue_id and lane = progress.lane
            and position > progress.cursor and position <= progress.horizon
            and locked_until is null
          order by position
          limit 1
            for update skip locked),
        greatest(progress.cursor, progress.horizon));
end
$$;
