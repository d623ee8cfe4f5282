-- What became of the messages of queues that keep results.
create table pgqueue.outcome (
    queue_id        integer     not null,
    sequence_number bigint      not null,
    state           text        not null,
    result          jsonb,
    error           jsonb,
    settled_at      timestamptz not null,
    constraint outcome_pkey primary key (queue_id, sequence_number),
    constraint known_state check (state in ('COMPLETED', 'DEAD_LETTERED', 'DELETED'))
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000);

create index outcome_age on pgqueue.outcome (queue_id, settled_at);

-- Until when clients wait for outcomes of a queue, as pgqueue.waiting_consumer: the time is part of the key.
create table pgqueue.waiting_for_outcome (
    queue_id    integer     not null,
    waits_until timestamptz not null,
    constraint waiting_for_outcome_pkey primary key (queue_id, waits_until)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

alter table pgqueue.queue add column result_retention interval;
