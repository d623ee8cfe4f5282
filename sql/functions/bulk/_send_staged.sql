-- Stores staged messages. A number is drawn for every row, in the order of the rows, so that a duplicate leaves a gap.
-- Their rows are checked again: some may have come after pgqueue.check_staged.
-- Returns  how many rows were staged, and how many messages were stored, without the duplicates.
create or replace function pgqueue._send_staged(target pgqueue.queue, staged text[], out read bigint, out stored bigint)
language plpgsql
set synchronize_seqscans = off
as $$
declare
    moment   timestamptz := pgqueue.clock();
    selected text;
    has      text[];
    source   text;
    checked  bigint;
begin
    perform pg_current_xact_id();        -- take a transaction id before drawing a number, as in pgqueue.send
    read   := 0;
    stored := 0;
    if staged = '{}' then
        return;
    end if;
    selected := pgqueue._staged_columns(target, staged);
    checked  := sum(pgqueue._check_staged(target, name, selected)) from unnest(staged) as name;
    has      := array(select attname from pg_attribute where attrelid = to_regclass(format('pgqueue.%I', staged[1])) and attnum > 0);
    source   := string_agg(format('select %s from pgqueue.%I', selected, name), ' union all ' order by nth)
                  from unnest(staged) with ordinality as given (name, nth);
    if 'priority' = any (has) then
        execute format($query$
            select pgqueue._create_lanes($1.id, priority)
              from (select distinct priority from (%s) as given) as used
             where not (2 * priority + 1)::smallint = any ($1.fresh_lanes)
            $query$, source)
           using target;
    end if;
    if has && '{scheduled_enqueue_time}' or target.requires_duplicate_detection and has && '{message_id}' then
        execute format($query$
            with given as materialized (
                select nextval('pgqueue.sequence_number') as number, * from (%s) as staged
            ), remembered as (
                insert into pgqueue.sent_message_id (queue_id, message_id, sequence_number, sent_at)
                select $1.id, message_id, min(number), $2
                  from given
                 where message_id is not null and $1.requires_duplicate_detection
                 group by message_id
                 order by message_id
                    on conflict on constraint sent_message_id_pkey do update
                   set sequence_number = excluded.sequence_number, sent_at = excluded.sent_at
                 where sent_message_id.sent_at <= $2 - $1.duplicate_detection_history_time_window
                returning sequence_number
            ), kept as materialized (
                select given.*, greatest(scheduled_enqueue_time, $2) as enqueued_time
                  from given
                  left join remembered on number = sequence_number
                 where sequence_number is not null or message_id is null or not $1.requires_duplicate_detection
            ), scheduled as (
                insert into pgqueue.scheduled_message (
                    -- generated: sequence_number, position, enqueued_time, queue_id, lane,
                    --     {body to application_properties}, expires_at, time_to_live, scheduled_enqueue_time,
                    --     {after session_id if is_staged}
                    sequence_number, position, enqueued_time, queue_id, lane, body, binary_body, message_id,
                    correlation_id, subject, content_type, reply_to, application_properties, expires_at, time_to_live,
                    scheduled_enqueue_time, reply_to_session_id, "to", partition_key
                    -- end
                )
                select
                       -- generated: number, number, enqueued_time, $1.id, 2 * coalesce(priority, 0) + 1,
                       --     {body to application_properties},
                       number, number, enqueued_time, $1.id, 2 * coalesce(priority, 0) + 1, body, binary_body,
                       message_id, correlation_id, subject, content_type, reply_to, application_properties,
                       -- end
                       enqueued_time + least(time_to_live, $1.default_message_time_to_live),
                       least(time_to_live, $1.default_message_time_to_live), enqueued_time
                       -- generated: , {after session_id if is_staged}
                       , reply_to_session_id, "to", partition_key
                       -- end
                  from kept
                 where enqueued_time > $2
            ), sent as (
                insert into pgqueue.message (
                    -- generated: sequence_number, position, enqueued_time, queue_id, lane,
                    --     {body to application_properties}, expires_at, time_to_live, {after session_id if is_staged}
                    sequence_number, position, enqueued_time, queue_id, lane, body, binary_body, message_id,
                    correlation_id, subject, content_type, reply_to, application_properties, expires_at, time_to_live,
                    reply_to_session_id, "to", partition_key
                    -- end
                )
                select
                       -- generated: number, number, $2, $1.id, 2 * coalesce(priority, 0) + 1,
                       --     {body to application_properties},
                       number, number, $2, $1.id, 2 * coalesce(priority, 0) + 1, body, binary_body, message_id,
                       correlation_id, subject, content_type, reply_to, application_properties,
                       -- end
                       $2 + least(time_to_live, $1.default_message_time_to_live),
                       least(time_to_live, $1.default_message_time_to_live)
                       -- generated: , {after session_id if is_staged}
                       , reply_to_session_id, "to", partition_key
                       -- end
                  from kept
                 where enqueued_time <= $2)
            select (select count(*) from given), (select count(*) from kept)
            $query$, source)
            into read, stored
           using target, moment;
    else                                 -- fast path: neither scheduled messages nor duplicates
        execute format($query$
            insert into pgqueue.message (
                -- generated: sequence_number, position, enqueued_time, queue_id, lane,
                --     {body to application_properties}, expires_at, time_to_live, {after session_id if is_staged}
                sequence_number, position, enqueued_time, queue_id, lane, body, binary_body, message_id, correlation_id,
                subject, content_type, reply_to, application_properties, expires_at, time_to_live, reply_to_session_id,
                "to", partition_key
                -- end
            )
            select
                   -- generated: number, number, $2, $1, 2 * coalesce(priority, 0) + 1,
                   --     {body to application_properties},
                   number, number, $2, $1, 2 * coalesce(priority, 0) + 1, body, binary_body, message_id, correlation_id,
                   subject, content_type, reply_to, application_properties,
                   -- end
                   $2 + least(time_to_live, $3), least(time_to_live, $3)
                   -- generated: , {after session_id if is_staged}
                   , reply_to_session_id, "to", partition_key
                   -- end
              from (select nextval('pgqueue.sequence_number') as number, * from (%s) as staged) as given
            $query$, source)
           using target.id, moment, target.default_message_time_to_live;
        get diagnostics read = row_count;
        stored := read;
    end if;
    if read <> checked then
        perform pgqueue._refuse(
            '55000', format('%s rows were staged for queue %I, %s are there now', checked, target.name, read),
            'Publish the tables when all rows are there. Nothing was sent.');
    end if;
end
$$;
