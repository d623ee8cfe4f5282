-- The workers that run. Each writes its row every few seconds; no index has a column that changes, and pages have room, so
-- the new version of a row lies beside the old one. Only `role` may write it.
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
    constraint worker_pkey primary key (id),
    constraint worker_is_short check (length(host) <= 255 and length(version) <= 100),
    constraint failing_is_a_short_object check (jsonb_typeof(failing) = 'object' and octet_length(failing::text) <= 10000)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 100);
