-- Removes rows of queues that were deleted on idle, or of queues and topics that were dropped while the rows were written, at most
-- `max_records` of each kind; with `dry_run` they are only counted. Only those that are known to be dropped are considered: one
-- that does not exist may be about to be restored. For thirty days, a session may still see a dropped queue and send to it. A topic
-- has its id negated.
-- Returns  how many were removed.
create or replace function pgqueue._remove_orphans(max_records integer, dry_run boolean)
returns integer
language plpgsql
as $$
declare
    kind     text;
    orphaned text;
    found    integer;
    orphans  integer := 0;
begin
    foreach kind in array array[
        'message', 'scheduled_message', 'dead_letter', 'failed_message', 'slot', 'watch', 'sent_message_id', 'unique_key',
        'recorded_effect', 'published_batch', 'consumer', 'session', 'waiting_session', 'waiting_consumer',
        'outcome', 'waiting_for_outcome', 'message_group', 'group_limit', 'batch_member', 'sweep_progress', 'scheduled_on_topic']
    loop
        orphaned := format($sql$
            select place
              from pgqueue.dropped_queue as dropped
             cross join lateral (
                   select ctid as place
                     from pgqueue.%I
                    where %s
                    limit $1
                      %s) as record
             where not exists (select from pgqueue.queue where id = dropped.queue_id)
               and not exists (select from pgqueue.topic where id = -dropped.queue_id)
             limit $1
            $sql$, kind, case kind when 'scheduled_on_topic' then 'topic_id = -dropped.queue_id' else 'queue_id = dropped.queue_id' end,
            case when dry_run then '' else 'for update skip locked' end);
        if dry_run then
            execute format('select count(*) from (%s) as orphan', orphaned) into found using max_records;
        else
            execute format(case kind
                when 'batch_member' then
                    'select pgqueue._leave_batches(queue_id, array_agg(sequence_number), ''DELETED'')
                       from pgqueue.%I where ctid = any (array(%s)) group by queue_id'
                else 'delete from pgqueue.%I where ctid = any (array(%s))' end, kind, orphaned) using max_records;
            get diagnostics found = row_count;
        end if;
        orphans := orphans + found;
    end loop;
    for kind in
        select bucket
          from pgqueue.dropped_queue
         cross join lateral to_regclass('pgqueue.full_at_' || queue_id) as bucket
         where bucket is not null and not exists (select from pgqueue.queue where id = queue_id)
         limit max_records
    loop
        if not dry_run then
            execute format('drop sequence %s', kind);
        end if;
        orphans := orphans + 1;
    end loop;
    if not dry_run and coalesce(orphans < max_records, true) then
        delete from pgqueue.dropped_queue where dropped_at < pgqueue.clock() - interval '30 days';
    end if;
    return orphans;
end
$$;
