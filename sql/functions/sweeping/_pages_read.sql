-- Returns how many pages this transaction has read of the tables that a sweep looks over.
create or replace function pgqueue._pages_read()
returns bigint
language sql volatile
as $$
    select sum(pg_stat_get_xact_blocks_fetched(kept))
      from unnest(array['pgqueue.message', 'pgqueue.scheduled_message', 'pgqueue.sent_message_id', 'pgqueue.unique_key',
                        'pgqueue.recorded_effect', 'pgqueue.published_batch', 'pgqueue.session', 'pgqueue.outcome',
                        'pgqueue.waiting_for_outcome', 'pgqueue.scheduled_on_topic']::regclass[]) as kept
$$;
