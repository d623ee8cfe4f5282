-- After how long without a send, a receive or a peek a sweep deletes the queue; null keeps it.
alter table pgqueue.queue
    add column auto_delete_on_idle interval,
    add constraint auto_delete_on_idle_fits check (auto_delete_on_idle between interval '5 minutes' and interval '100 years');

-- When each queue that is deleted on idle was last used, to a twentieth of that period. A table of its own, because the
-- transaction of a send locks the row until it ends, and others change the row of the queue meanwhile.
create table pgqueue.queue_use (
    queue_id integer     not null,
    used_at  timestamptz not null,
    constraint queue_use_pkey primary key (queue_id),
    constraint use_of_a_queue foreign key (queue_id) references pgqueue.queue on delete cascade
) with (fillfactor = 50);

-- Until when somebody waited for messages of a dropped queue: a new one of the same name wakes them.
alter table pgqueue.dropped_queue
    add column name          text,
    add column awaited_until timestamptz;

create index dropped_queue_name on pgqueue.dropped_queue (name);
