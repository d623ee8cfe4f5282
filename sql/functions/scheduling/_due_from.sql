-- Returns from where on what becomes due in a queue is looked for: scheduled messages, or another kind; see pgqueue._pass_due_times.
create or replace function pgqueue._due_from(queue_id integer, kind text default 'MESSAGE')
returns timestamptz
language plpgsql stable                      -- a query in a function of SQL costs three times as much
as $$
begin
    return coalesce(
        (select due_from
           from pgqueue.scheduled_progress
          where scheduled_progress.queue_id = _due_from.queue_id and scheduled_progress.kind = _due_from.kind
          order by turn desc
          limit 1),
        '-infinity');
end
$$;
