-- `records_settlements`: whether the settlements of a queue are recorded in any way, in the history, as outcomes or for batches.
alter table pgqueue.queue
    add column has_batches         boolean not null default false,
    add column records_settlements boolean not null default false;

update pgqueue.queue set records_settlements = true where num_nonnulls(retain_history, result_retention) > 0;

-- A batch sends the message `sequence_number` of a queue, or `failure_number`, when the last of its members is settled. Its members
-- are counted in stripes; those that are at their end are no longer in `open_stripes`.
create table pgqueue.batch (
    id              uuid        not null default gen_random_uuid(),
    queue_id        integer     not null,
    sequence_number bigint      not null,
    failure_number  bigint,
    open_stripes    smallint    not null default 16,
    created_at      timestamptz not null,
    closed_at       timestamptz,
    finished_at     timestamptz,
    constraint batch_pkey primary key (id),
    constraint open_stripes_are_counted check (open_stripes >= 0)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

create index batch_age on pgqueue.batch (finished_at);

-- How many members of a stripe are pending, and what became of the others. Members are spread over the stripes by their numbers, so
-- that transactions which end at the same time seldom wait for each other.
create table pgqueue.batch_stripe (
    batch_id      uuid     not null,
    stripe        smallint not null,
    is_closed     boolean  not null default false,
    pending       bigint   not null default 0,
    completed     bigint   not null default 0,
    dead_lettered bigint   not null default 0,
    deleted       bigint   not null default 0,
    constraint batch_stripe_pkey primary key (batch_id, stripe),
    constraint pending_are_counted check (pending >= 0)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- The batch that a message belongs to, while it is pending.
create table pgqueue.batch_member (
    queue_id        integer  not null,
    sequence_number bigint   not null,
    batch_id        uuid     not null,
    stripe          smallint not null,
    constraint batch_member_pkey primary key (queue_id, sequence_number)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000);

-- What a transaction changes in batches, until it commits: a trigger adds it to the stripes then. The id of the transaction comes
-- first in the key, so no transaction reads the dead rows of others.
create table pgqueue.batch_change (
    transaction_id xid8     not null default pg_current_xact_id(),
    id             bigint   not null generated always as identity,
    batch_id       uuid     not null,
    stripe         smallint not null,
    added          bigint   not null default 0,
    completed      bigint   not null default 0,
    dead_lettered  bigint   not null default 0,
    deleted        bigint   not null default 0,
    closes         boolean  not null default false,
    constraint batch_change_pkey primary key (transaction_id, id)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000);
