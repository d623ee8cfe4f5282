-- Sends what was staged, `rows` messages, all or none, and drops the tables. The messages are sent in the order of the
-- tables, and of the rows within each. With a `publisher`, each `part` is sent to a queue once: sending it again sends
-- nothing. The parts of a stream are `ordered`: the last part may be repeated, and an older one must have no rows. The
-- parts of a job are remembered for `keep`, 30 days when null. A caller that lost its connection at COMMIT repeats the
-- call: it either gets the result of the first call or sends the messages now.
-- Returns  how many messages were sent by this call or by the first one, and how many were duplicates of earlier
--          messages.
-- Raises   PQ002 unknown queue, PQ004 queue disabled, PQ005 message too large, PQ007 invalid argument, PQ008 queue full,
--          55000 when staged rows are lost, or when a batch of a stream is older than the last one.
-- Locks    message ids, as pgqueue.send does; waits for a transaction that publishes the same part, or any part that is `ordered`.
create or replace function pgqueue.publish(
    queue text, staged text[], rows bigint, publisher text default null, part bigint default null, ordered boolean default false,
    keep interval default null, out sent bigint, out duplicates bigint)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    target pgqueue.queue;
    moment timestamptz;
    drawn  bigint;
    read   bigint;
    last   pgqueue.published_batch;
begin
    target := pgqueue._find_queue(queue, 'SEND');                            -- only those who may send lock anything
    perform pgqueue._check_duration('keep', keep);
    if publisher is not null and num_nulls(part, rows, ordered) > 0 then
        perform pgqueue._refuse_argument(
            'part, rows and ordered', 'given with a publisher', format('%s, %s and %s', coalesce(part::text, 'null'), rows, ordered));
    end if;
    perform
       from pgqueue.publishing_lock
      where slot = hashtext(concat_ws(' ', queue, publisher, case when not ordered then part end)) & 255
        and publisher is not null
        for no key update;
    perform from pgqueue.staged_batch where name = any (staged) and queue_id = target.id order by name for update;
    target := pgqueue._find_queue(queue, 'SEND');
    moment := pgqueue.clock();
    if publisher is not null then
        select (batch).* into last
          from pgqueue._published(target.id, publish.publisher, publish.part, case when not ordered then publish.part end)
         where (batch).forget_at is null or (batch).forget_at > moment
         order by (batch).part
         limit 1;
        if found and last.part > publish.part and rows > 0 then
            perform pgqueue._refuse(
                '55000', format('batch %s of %s is older than the last one that was sent to queue %I, %s',
                                publish.part, publish.publisher, target.name, last.part),
                'The earlier batches came from another checkpoint: give this query a name of its own. Nothing was sent.');
        elsif found then
            sent       := case when last.part = publish.part then last.sent else 0 end;
            duplicates := case when last.part = publish.part then last.duplicates else 0 end;
            perform pgqueue._drop_staged(array(select name from pgqueue.staged_batch where name = any (staged) and queue_id = target.id));
            return;
        end if;
    end if;
    if target.status in ('DISABLED', 'SEND_DISABLED') then
        perform pgqueue._refuse_disabled(target);
    end if;
    perform pgqueue._use(target, sends => true);
    perform pg_current_xact_id();        -- take a transaction id before looking at a number, as in pgqueue.send
    drawn := pgqueue._last_number_drawn();
    select * into read, sent from pgqueue._send_staged(target, staged);
    if read is distinct from rows then
        perform pgqueue._refuse(
            '55000', format('%s rows were staged for queue %I, %s are left', rows, target.name, read),
            'The server has crashed since, and staged tables are not logged: write them again. Nothing was sent.');
    end if;
    if target.forward_to is not null then
        perform pgqueue._forward_sent(target, drawn);
    end if;
    duplicates := read - sent;
    if sent > 0 and target.max_queue_length is not null then
        perform pgqueue._refuse_over_length(target);
    end if;
    if publisher is not null then
        delete from pgqueue.published_batch
         where ctid = any (array(
                   select place
                     from pgqueue._published(target.id, publish.publisher, case when not ordered then publish.part end,
                                             case when not ordered then publish.part end)));
        insert into pgqueue.published_batch (queue_id, publisher, part, sent, duplicates, published_at, forget_at)
        values (target.id, publish.publisher, publish.part, sent, duplicates, moment, case when not ordered then moment + coalesce(keep, interval '30 days') end);
    end if;
    perform pgqueue._drop_staged(staged);
    if (select awaited_until > pgqueue.clock() from pgqueue.queue where id = target.id) then
        perform pgqueue._notify(target);
    end if;
end
$$;
