-- The message that was sent last with each unique key. It may be settled by now; then the key is free, and a sweep deletes the row.
create table pgqueue.unique_key (
    queue_id        integer not null,
    unique_key      text    not null,
    sequence_number bigint  not null,
    constraint unique_key_pkey primary key (queue_id, unique_key)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000);

alter table pgqueue.schedule add column unique_key text, add column unique_scope text;
