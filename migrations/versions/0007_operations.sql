-- One row: the key proves that a note in a setting of a session was written by a function of ours.
create table pgqueue.secret (
    key bytea not null
);

insert into pgqueue.secret (key)
values (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

-- Tables without rows; the operation that each is named after locks it as a whole. Advisory locks are open to every role; a
-- lock on a table takes a right on it. Nothing is written to lock a table.
create table pgqueue.sweep_lock ();
create table pgqueue.sample_lock ();
create table pgqueue.repair_lock ();

-- The workers that are registered. The state of each is in pgqueue.worker, whose rows are rewritten every few seconds: only the
-- newest version of each is looked up.
create table pgqueue.registered_worker (
    id   uuid not null,
    role text not null,
    constraint registered_worker_pkey primary key (id)
);

-- The state of each worker, as it reports it. Pages have room, so the new version of a row lies beside the old one. Only
-- `role` may write it.
create table pgqueue.worker (
    id          uuid        not null,
    role        text        not null,
    host        text        not null,
    pid         integer     not null,
    version     text        not null,
    queues      text[]      not null,
    concurrency integer     not null,
    started_at  timestamptz not null,
    seen_at     timestamptz not null,
    is_alive    boolean     not null,
    is_stopping boolean     not null,
    running     integer     not null,
    waiting     integer     not null,
    overdue     integer     not null,
    handled     bigint      not null,
    failed      bigint      not null,
    failing     jsonb       not null,
    beat        bigint      not null default 0,
    constraint worker_pkey primary key (id, beat),
    constraint worker_is_short check (length(host) <= 255 and length(version) <= 100),
    constraint failing_is_a_short_object check (jsonb_typeof(failing) = 'object' and octet_length(failing::text) <= 10000)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 100);

-- A message as pgqueue.find_messages returns it: without columns that may be long.
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
-- the settled messages are null where the queue retains no history.
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
