-- The queues that were dropped: what is sent to one by a transaction that still sees it belongs to no queue.
create table pgqueue.dropped_queue (
    queue_id   integer     not null,
    dropped_at timestamptz not null,
    constraint dropped_queue_pkey primary key (queue_id)
);
