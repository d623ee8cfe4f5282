-- The cost of the same rows with plain statements, by a client that numbers them itself: no queue at all.
create schema floor;
create sequence floor.number;
create table floor.message (like pgqueue.message including defaults, primary key (queue_id, lane, position)) with (
    fillfactor = 45,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_scale_factor = 10,
    autovacuum_analyze_scale_factor = 10
);
