-- How far sweeps have come in queues in which they have read much: what died there before is not read again each minute.
create table pgqueue.sweep_progress (
    queue_id       integer     not null,
    looked_over_at timestamptz not null,
    removed_until  timestamptz not null,
    constraint sweep_progress_pkey primary key (queue_id),
    constraint sweep_progress_of_a_queue foreign key (queue_id) references pgqueue.queue on delete cascade
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 100);
