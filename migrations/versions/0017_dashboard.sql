-- A message as pgqueue.find_messages shows it: without what may be long.
create type pgqueue.found_message as (
    sequence_number        bigint,
    state                  text,
    delivery_count         integer,
    enqueued_time          timestamptz,
    scheduled_enqueue_time timestamptz,
    locked_until           timestamptz,
    locked_by              text,
    expires_at             timestamptz,
    message_id             text,
    correlation_id         text,
    subject                text,
    session_id             text,
    dead_letter_reason     text,
    dead_lettered_at       timestamptz,
    last_error             text,
    body                   text
);

-- The figures of queues, minute by minute, for a week. Times are null where nothing was received in the minute, and they and
-- what was settled are null where the queue retains no history.
create table pgqueue.sample (
    queue_id      integer     not null,
    sampled_at    timestamptz not null,
    ready         bigint      not null,
    locked        bigint      not null,
    scheduled     bigint      not null,
    deferred      bigint      not null,
    dead_letters  bigint      not null,
    is_exact      boolean     not null,
    oldest_age    real,
    settled       bigint,
    waited        real[],
    worked        real[],
    constraint sample_pkey primary key (queue_id, sampled_at),
    constraint sample_of_a_queue foreign key (queue_id) references pgqueue.queue on delete cascade
);
create index sample_age on pgqueue.sample (sampled_at);

-- The queue by its name, so that the entry outlives it.
create table pgqueue.audited_action (
    id       bigint      not null generated always as identity,
    acted_at timestamptz not null,
    role     text        not null,
    action   text        not null,
    queue    text        not null,
    messages bigint,
    details  jsonb,
    constraint audited_action_pkey primary key (id),
    constraint action_is_short check (length(action) <= 100),
    constraint details_are_short check (octet_length(details::text) <= 100000)
);
