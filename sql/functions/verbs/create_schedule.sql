-- Creates a schedule: a message that is sent to a queue again and again, either at the times of a `cron` expression in a
-- time zone, or `every` so often from `starts_at` on (from now on when null). Due times before `starts_at` and after
-- `ends_at` are left out, and so are those that have passed already. With `jitter` a message can be received up to so
-- much later than at its due time, at random. `catch_up` decides about due times that are missed by more than ten
-- seconds:
--   - none: only the latest is sent, and only within a minute;
--   - last: only the latest is sent, however late;
--   - all: each is sent, up to the latest 1000.
--
-- The id of a message is that of the schedule's message, or the schedule's name, with @ and the due time in UTC.
-- PostgreSQL cannot read cron expressions, so it checks only how many fields one has. The due times of a schedule with one
-- are computed by the next worker, sweep or client in Python; see pgqueue.plan_schedule. `every` is a time that elapses: a
-- day has 24 hours.
-- Returns  the schedule's id.
-- Raises   PQ002 unknown queue, PQ005 message too large, PQ007 invalid argument, PQ031 schedule already exists.
-- Locks    the queue's row against being dropped; waits for an open transaction that has created a schedule of the same
--          name.
create or replace function pgqueue.create_schedule(
    schedule               text,
    queue                  text,
    cron                   text        default null,
    every                  interval    default null,
    -- generated rows: {body to time_to_live: $name | $type | default $default},
    body                   jsonb    default null,
    binary_body            bytea    default null,
    message_id             text     default null,
    correlation_id         text     default null,
    subject                text     default null,
    content_type           text     default null,
    reply_to               text     default null,
    application_properties jsonb    default null,
    priority               integer  default 0,
    time_to_live           interval default null,
    -- end
    timezone               text        default 'UTC',
    catch_up               text        default 'none',
    jitter                 interval    default null,
    starts_at              timestamptz default null,
    ends_at                timestamptz default null,
    -- generated rows: {from session_id: $name | $type | default $default}
    session_id          text default null,
    reply_to_session_id text default null,
    "to"                text default null,
    partition_key       text default null,
    unique_key          text default null,
    unique_scope        text default null
    -- end
)
returns integer
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    target  pgqueue.queue := pgqueue._find_queue(queue, 'SEND');
    moment  timestamptz   := pgqueue.clock();
    created pgqueue.schedule;
begin
    perform pgqueue._check_admin(queue);
    if num_nonnulls(cron, every) <> 1 then
        perform pgqueue._refuse(
            'PQ007', 'give either cron or every' || case when cron is null then '' else ', not both' end);
    end if;
    perform pgqueue._refuse_argument(argument, rule.must_be, rule.was)
       from (values
            ('the name of a schedule',
             'at most 100 letters, digits, dots, underscores, hyphens and slashes, with a letter or digit at each end',
             quote_literal(schedule),
             coalesce(length(schedule) <= 100 and schedule ~ '^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$', false)),
            ('cron', 'five fields, minute hour day-of-month month day-of-week, such as ''30 2 * * *''', quote_literal(cron),
             cron ~ '^\s*\S+(\s+\S+){4,5}\s*$'),
            ('every', 'positive and at most a hundred years, in days and units of time', every::text,
             every > interval '0' and every <= interval '36500 days'
             and extract(year from every) = 0 and extract(month from every) = 0),
            ('timezone', 'the name of a time zone, such as ''Europe/Zurich''; pg_timezone_names lists them',
             quote_literal(timezone),
             timezone = 'UTC' or exists (select from pg_timezone_names as known where known.name = timezone)),
            ('catch_up', 'none, last or all', quote_literal(catch_up), coalesce(catch_up in ('none', 'last', 'all'), false)),
            ('jitter', 'from 0 to 1 day', jitter::text, jitter between interval '0' and interval '1 day'),
            ('starts_at', 'a time within a hundred years', starts_at::text,
             isfinite(starts_at) and abs(extract(epoch from starts_at - moment)) <= 36500 * 86400.0),
            ('ends_at', 'a time after starts_at and in the future', ends_at::text,
             isfinite(ends_at) and ends_at > greatest(moment, starts_at)),
            ('message_id', 'at most 100 characters, because the due time is added to it', length(coalesce(message_id, schedule))::text,
             length(coalesce(message_id, schedule)) <= 100)
            ) as rule (argument, must_be, was, holds)
      where not holds;
    target.status := 'ACTIVE';                           -- a queue that is disabled now may have a schedule for later
    perform pgqueue._check_batch(
        -- generated: target, 1, {body to time_to_live: array[$name]}, null, {from session_id: array[$name]}
        target, 1, array[body], array[binary_body], array[message_id], array[correlation_id], array[subject],
        array[content_type], array[reply_to], array[application_properties], array[priority], array[time_to_live], null,
        array[session_id], array[reply_to_session_id], array["to"], array[partition_key], array[unique_key],
        array[unique_scope]
        -- end
    );
    perform pgqueue._repair_ids('pgqueue.schedule');
    insert into pgqueue.schedule (
        -- generated: name, queue_id, cron, every, timezone, starts_at, ends_at, jitter, catch_up,
        --     {body to time_to_live}, passed_until, plan_at, created_at, {from session_id}
        name, queue_id, cron, every, timezone, starts_at, ends_at, jitter, catch_up, body, binary_body, message_id,
        correlation_id, subject, content_type, reply_to, application_properties, priority, time_to_live, passed_until,
        plan_at, created_at, session_id, reply_to_session_id, "to", partition_key, unique_key, unique_scope
        -- end
    ) values (
        schedule, target.id, cron, make_interval(secs => extract(epoch from every)::double precision), timezone,
        coalesce(starts_at, moment), ends_at, nullif(jitter, interval '0'), catch_up,
        -- generated: {body to time_to_live},
        body, binary_body, message_id, correlation_id, subject, content_type, reply_to, application_properties,
        priority, time_to_live,
        -- end
        greatest(moment, starts_at - interval '1 microsecond'), case when cron is not null then moment end, moment,
        -- generated: {from session_id}
        session_id, reply_to_session_id, "to", partition_key, unique_key, unique_scope
        -- end
    )
        on conflict on constraint schedule_name_is_taken do nothing
    returning * into created;
    if created.id is null then
        perform pgqueue._refuse(
            'PQ031', format('schedule %I exists already', schedule),
            'Drop it with pgqueue.drop_schedule, or choose another name.');
    end if;
    if every is not null and pgqueue._interval_after(created, created.passed_until) is null then
        perform pgqueue._refuse_argument('ends_at', 'a time at or after the first due time', ends_at::text);
    end if;
    perform pgqueue._save_schedule(created);
    return created.id;
end
$$;
