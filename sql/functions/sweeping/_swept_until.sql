-- Returns until when sweeps have removed what was to be removed from a queue; '-infinity' when a sweep looks everything over,
-- which it does once an hour, when it is to be `thorough`, and always where that is little.
create or replace function pgqueue._swept_until(queue_id integer, thorough boolean)
returns timestamptz
language sql stable
as $$
    select coalesce(
        (select removed_until
           from pgqueue.sweep_progress
          where sweep_progress.queue_id = _swept_until.queue_id and not thorough
            and looked_over_at between pgqueue.clock() - interval '1 hour' and pgqueue.clock()),
        '-infinity')
$$;
