-- Rows that are rewritten all the time, and that many look at. While a transaction holds a snapshot the old versions of a row
-- stay, and whoever looks it up by its key walks over them. So what changes is part of the key here, and grows: the
-- newest row lies at the end of the index, and nobody looks at what lies before it.

-- Until when consumers wait for messages of a queue. Its row only says that there may be any, and is rewritten rarely. No
-- foreign key: that would lock the queue's row at each subscription.
create table pgqueue.waiting_consumer (
    queue_id    integer     not null,
    waits_until timestamptz not null,
    constraint waiting_consumer_pkey primary key (queue_id, waits_until)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- Which turn has moved the cursor of a lane last. There is one row for each lane.
alter table pgqueue.progress
    add column turn bigint not null default 0,
    drop constraint progress_pkey,
    add constraint progress_pkey primary key (queue_id, lane, turn);

-- The rows of pgqueue.flow are locked by whoever receives, and never rewritten.
alter table pgqueue.flow
    drop column handed_out_at,
    drop column full_at;

-- The slots of a queue lie in the order in which they were taken. The last row of each queue is the end of them, without a
-- message: it moves behind each slot that is taken, and says where the first one lies.
alter table pgqueue.slot
    add column position       bigint,
    add column first_position bigint,
    add column taken_at       timestamptz,
    drop constraint slot_pkey,
    alter column sequence_number drop not null,
    alter column lock_token drop not null;

update pgqueue.slot
   set position = placed.position
  from (select ctid as place, row_number() over (partition by queue_id) as position from pgqueue.slot) as placed
 where slot.ctid = place;

insert into pgqueue.slot (queue_id, position, first_position)
select queue_id, 1 + (select count(*) from pgqueue.slot where slot.queue_id = flow.queue_id), 1 from pgqueue.flow;

alter table pgqueue.slot
    alter column position set not null,
    add constraint slot_pkey primary key (queue_id, position);

-- When the bucket of a queue with a `max_receive_rate` is full again is kept in a sequence: setting it takes effect at once, and
-- a rollback does not undo it.
do $$
declare
    limited integer;
begin
    for limited in select id from pgqueue.queue where max_receive_rate is not null loop
        execute format('create sequence pgqueue.full_at_%s', limited);
    end loop;
end
$$;
