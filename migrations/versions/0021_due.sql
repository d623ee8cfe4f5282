-- From where on the scheduled messages of a queue are looked for. `horizon` is a time at which all open transactions had ids
-- below `horizon_xid`; whatever later ones schedule is due after it. No message is due before `due_from`, or it is to come
-- from a transaction in `awaited`: one that was open when `due_from` moved. What that brings is due at its place in
-- `awaited_from` or later.
create table pgqueue.scheduled_progress (
    queue_id     integer       not null,
    due_from     timestamptz   not null default '-infinity',
    horizon      timestamptz   not null default '-infinity',
    horizon_xid  xid8          not null default '0',
    awaited      xid8[]        not null default '{}',
    awaited_from timestamptz[] not null default '{}',
    constraint scheduled_progress_pkey primary key (queue_id),
    constraint scheduled_progress_of_a_queue foreign key (queue_id) references pgqueue.queue on delete cascade
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 100);

insert into pgqueue.scheduled_progress (queue_id) select id from pgqueue.queue;
