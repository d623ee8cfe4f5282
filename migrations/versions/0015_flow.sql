-- Since when the queue hands out nothing; how many messages a second it hands out, and how many at a time; after how long
-- a message rises by one priority. Null for none of it.
alter table pgqueue.queue
    add column paused_at        timestamptz,
    add column max_receive_rate double precision,
    add column max_concurrent   integer,
    add column priority_ageing  interval,
    add constraint max_receive_rate_fits check (max_receive_rate between 0.001 and 10000),
    add constraint max_concurrent_fits check (max_concurrent between 1 and 10000),
    add constraint priority_ageing_fits check (priority_ageing between interval '1 second' and interval '30 days');

-- The state of the limits of each queue that has any. Its row is locked by whoever receives, so that receives of such a queue
-- follow each other. The tokens that are left are kept as the time at which there will be a whole second's worth again. A
-- table of its own, because the transaction of a receive may stay open, and others change the row of the queue meanwhile.
create table pgqueue.flow (
    queue_id      integer     not null,
    handed_out_at timestamptz not null default '-infinity',
    full_at       timestamptz not null default '-infinity',
    constraint flow_pkey primary key (queue_id),
    constraint flow_of_a_queue foreign key (queue_id) references pgqueue.queue on delete cascade
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 100);

-- The messages that count towards `max_concurrent`: those that were handed out, until a later receive finds that their lock
-- is over.
create table pgqueue.slot (
    queue_id        integer not null,
    sequence_number bigint  not null,
    lock_token      uuid    not null,
    constraint slot_pkey primary key (queue_id, sequence_number, lock_token)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- Where messages rise, which number was the last one drawn at some times, for as long as messages wait in the lane. One with
-- a smaller position has been there since then.
alter table pgqueue.progress
    add column mark_times   timestamptz[],
    add column mark_numbers bigint[];
