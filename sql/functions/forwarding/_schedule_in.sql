-- Moves scheduled messages whose rows are locked to another queue, which has the lanes of their priorities. They keep
-- their times; what is due already becomes due now: its row was locked before the clock is read, see
-- pgqueue._pass_due_times. A number is drawn for each, because pgqueue._check_queue_length counts on that for whatever
-- comes into a queue.
create or replace function pgqueue._schedule_in(target pgqueue.queue, places tid[])
returns void
language plpgsql
as $$
#variable_conflict use_column
begin
    perform nextval('pgqueue.sequence_number') from unnest(places);
    update pgqueue.scheduled_message
       set queue_id               = target.id,
           lane                   = case when not (target.requires_session or target.fair) then lane
                                         when pgqueue._is_deferred(lane) then 1000
                                         else 2000 end,
           scheduled_enqueue_time = greatest(scheduled_enqueue_time, pgqueue.clock()),
           time_to_live           = least(time_to_live, target.default_message_time_to_live),
           expires_at             = least(expires_at, greatest(scheduled_enqueue_time, pgqueue.clock())
                                                      + target.default_message_time_to_live)
     where ctid = any (places);
end
$$;
