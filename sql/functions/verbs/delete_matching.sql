-- Deletes up to `max_messages` messages that match, all when null, whether they wait, are scheduled or deferred: those
-- in this state (READY, SCHEDULED, DEFERRED, EXPIRED or EXHAUSTED), with this subject, sent longer ago than
-- `older_than`, whose application properties are equal to these, and of this session. An argument that is null does not
-- restrict the selection. Messages that a receiver has locked stay, and so do those that an open transaction holds.
--
-- To delete many, call it until it returns less than `max_messages`, and commit each time.
-- Returns  how many were deleted.
-- Raises   PQ002 unknown queue, PQ007 invalid argument.
-- Locks    the messages, until the transaction ends; skips those that others hold.
create or replace function pgqueue.delete_matching(
    queue                  text,
    state                  text     default null,
    subject                text     default null,
    older_than             interval default null,
    application_properties jsonb    default null,
    session_id             text     default null,
    max_messages           integer  default 10000
)
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    source    pgqueue.queue := pgqueue._find_queue(queue, 'RECEIVE');
    moment    timestamptz   := pgqueue.clock();
    until     timestamptz;
    places    tid[]         := '{}';
    scheduled tid[]         := '{}';
    since     timestamptz;
begin
    perform pgqueue._check_bound(max_messages);
    perform pgqueue._check_duration('older_than', older_than, even_zero => true);
    until := moment - older_than;
    perform pgqueue._check_properties(delete_matching.application_properties, 'application_properties');
    if delete_matching.state not in ('READY', 'SCHEDULED', 'DEFERRED', 'EXPIRED', 'EXHAUSTED') then
        perform pgqueue._refuse_argument('state', 'READY, SCHEDULED, DEFERRED, EXPIRED or EXHAUSTED', delete_matching.state);
    end if;
    if delete_matching.state is distinct from 'SCHEDULED' then
        perform pgqueue._advance_cursors(source);            -- so that the next batch does not read what this one deletes
        perform pgqueue._pass_front(source.id, 'DEFERRED');
        places := array(
            select place
              from pgqueue._messages_of(source.id) as found
             cross join lateral (
                   select ctid as place
                     from pgqueue.message
                    where message.queue_id = found.queue_id and message.lane = found.lane and message.position = found.position
                      and not pgqueue._is_locked(message, source.requires_session, moment)
                    limit 1
                      for update skip locked) as held
             where not pgqueue._is_locked(found, source.requires_session, moment)
               and (delete_matching.state is null
                    or delete_matching.state = pgqueue._state_of(
                       source, false, found.lock_token, found.locked_until, found.expires_at, found.delivery_count, found.lane, moment))
               and (delete_matching.subject is null or found.subject = delete_matching.subject)
               and (until is null or found.enqueued_time <= until)
               and (delete_matching.session_id is null or found.session_id = delete_matching.session_id)
               and (delete_matching.application_properties is null
                    or pgqueue._has_properties(found.application_properties, delete_matching.application_properties))
             limit max_messages);
        if source.requires_session then
            places := pgqueue._unheld_in_sessions(places);
        end if;
    end if;
    if coalesce(delete_matching.state = 'SCHEDULED', true) then
        since     := pgqueue._earliest_due(source.id);
        scheduled := array(
            select ctid
              from pgqueue.scheduled_message
             where queue_id = source.id and scheduled_enqueue_time >= since
               and (delete_matching.subject is null or subject = delete_matching.subject)
               and (until is null or enqueued_time <= until)
               and (delete_matching.session_id is null or session_id = delete_matching.session_id)
               and (delete_matching.application_properties is null
                    or pgqueue._has_properties(application_properties, delete_matching.application_properties))
             order by scheduled_enqueue_time
             limit max_messages - cardinality(places)
               for update skip locked);
    end if;
    return pgqueue._remove(source, places, scheduled, 'DELETED');
end
$$;
