-- Sends what was staged, `rows` messages, in the order of the tables and of the rows in each, all or none, and drops the
-- tables. Under a name, `publisher`, each `part` is sent once to a queue: sending it again sends nothing. The parts of a stream are
-- `ordered`: what is not newer than the last is a repetition. Those of a job are remembered for 30 days.
-- Returns  how many were sent now, or had been then, and how many were duplicates of earlier messages.
-- Raises   PQ002 unknown queue, PQ004 queue disabled, PQ007 invalid argument, PQ008 queue full, 55000 staged rows are lost.
-- Locks    message ids, as pgqueue.send does.
create or replace function pgqueue.publish(
    queue text, staged text[], rows bigint, publisher text default null, part bigint default null, ordered boolean default false,
    out sent bigint, out duplicates bigint)
language plpgsql
as $$
#variable_conflict use_column
declare
    target pgqueue.queue := pgqueue._find_queue(queue);
    moment timestamptz   := pgqueue.clock();
    read   bigint;
    last   pgqueue.published_batch;
begin
    if target.status in ('DISABLED', 'SEND_DISABLED') then
        perform pgqueue._refuse_disabled(target);
    end if;
    if publisher is not null then
        perform pg_advisory_xact_lock(hashtextextended('pgqueue.publish ' || publish.publisher, target.id));
        select * into last
          from pgqueue.published_batch
         where queue_id = target.id and publisher = publish.publisher and (part = publish.part or ordered and part > publish.part)
         order by part
         limit 1;
        if found then
            sent       := case when last.part = publish.part then last.sent else 0 end;
            duplicates := case when last.part = publish.part then last.duplicates else 0 end;
            perform pgqueue._drop_staged(staged);
            return;
        end if;
    end if;
    select * into read, sent from pgqueue._send_staged(target, staged);
    if read <> rows then
        raise exception using
            errcode = '55000',
            message = format('%s rows were staged for queue %I, %s are left', rows, target.name, read),
            hint    = 'The server has crashed since, and staged tables are not logged: write them again. Nothing was sent.';
    end if;
    duplicates := read - sent;
    if target.max_queue_length is not null then
        perform pgqueue._refuse_overfull(target);
    end if;
    if publisher is not null then
        if ordered then
            delete from pgqueue.published_batch where queue_id = target.id and publisher = publish.publisher;
        end if;
        insert into pgqueue.published_batch (queue_id, publisher, part, sent, duplicates, published_at, forget_at)
        values (target.id, publish.publisher, publish.part, sent, duplicates, moment, case when not ordered then moment + interval '30 days' end);
    end if;
    perform pgqueue._drop_staged(staged);
    if target.awaited_until > moment then
        perform pgqueue._ring(target);
    end if;
end
$$;
