-- Returns from where on the scheduled messages of a queue are looked for; see pgqueue._pass_due_times.
create or replace function pgqueue._due_from(queue_id integer)
returns timestamptz
language sql stable
return coalesce((select due_from from pgqueue.scheduled_progress where scheduled_progress.queue_id = _due_from.queue_id), '-infinity');
