-- A message that is sent again and again: at the times of a cron expression, or at an interval from `starts_at` on. Due
-- times up to `passed_until` have been handled: sent or skipped. The next one is `next_due`, null when none is known.
--
-- PostgreSQL cannot read cron expressions. Clients compute the due times ahead, of which the first is `next_due` and the
-- others are in `later`; from `plan_at` on, a client is to compute more. It is null when no more will come, and for
-- intervals. At `fire_at` the message is to be sent: at `next_due`, later after a refusal, never while it is paused.
create table pgqueue.schedule (
    id                     integer     not null generated always as identity,
    name                   text        not null,
    queue_id               integer     not null,
    cron                   text,
    every                  interval,
    timezone               text        not null,
    starts_at              timestamptz not null,
    ends_at                timestamptz,
    jitter                 interval,
    catch_up               text        not null,
    body                   jsonb,
    binary_body            bytea,
    message_id             text,
    correlation_id         text,
    subject                text,
    content_type           text,
    reply_to               text,
    application_properties jsonb,
    priority               integer     not null,
    time_to_live           interval,
    is_paused              boolean     not null default false,
    passed_until           timestamptz not null,
    next_due               timestamptz,
    later                  timestamptz[] not null default '{}',
    plan_at                timestamptz,
    fire_at                timestamptz,
    last_due               timestamptz,
    last_error             text,
    created_at             timestamptz not null,
    session_id             text,
    reply_to_session_id    text,
    "to"                   text,
    partition_key          text,
    constraint schedule_pkey primary key (id),
    constraint schedule_name_is_taken unique (name),
    constraint schedule_has_a_queue foreign key (queue_id) references pgqueue.queue on delete cascade,
    constraint recurs_in_one_way check (num_nonnulls(cron, every) = 1),
    constraint every_is_positive check (every > interval '0'),
    constraint catch_up_is_known check (catch_up in ('none', 'last', 'all')),
    constraint has_one_body check (num_nonnulls(body, binary_body) = 1),
    constraint is_due_after_what_has_passed check (next_due > passed_until)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 100);

create index schedule_fire_at on pgqueue.schedule (fire_at);
create index schedule_queue_id on pgqueue.schedule (queue_id, fire_at);
create index schedule_plan_at on pgqueue.schedule (plan_at);
