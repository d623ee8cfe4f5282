-- Drops a queue with all its messages and dead letters. The next sweep removes messages that are being sent meanwhile.
-- Raises  PQ002 unknown queue; PQ007 invalid argument, when other queues forward to it.
-- Locks   the queue and its messages; waits for open transactions that hold any of them, or that make another queue forward to it.
create or replace function pgqueue.drop_queue(queue text)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    dropped integer;
    awaited timestamptz;
    sources text;
begin
    perform pgqueue._check_admin(queue);
    select id into dropped from pgqueue.queue where name = drop_queue.queue for update;
    if not found then
        perform pgqueue._refuse_unknown_queue(queue);
    end if;
    select string_agg(quote_ident(name), ', ' order by name) into sources
      from pgqueue.queue
     where dropped in (forward_to, forward_dead_lettered_messages_to);
    if sources is not null then
        perform pgqueue._refuse(
            'PQ007', format('queue %I cannot be dropped: others forward to it: %s', queue, sources),
            'Set their forward_to or forward_dead_lettered_messages_to to another queue or to '''' with pgqueue.alter_queue.');
    end if;
    delete from pgqueue.queue where id = dropped;
    with gone as (delete from pgqueue.waiting_consumer where queue_id = dropped returning waits_until)
    select max(waits_until) into awaited from gone;
    insert into pgqueue.dropped_queue (queue_id, name, dropped_at, awaited_until)
    values (dropped, queue, pgqueue.clock(), awaited)
        on conflict on constraint dropped_queue_pkey do update set dropped_at = excluded.dropped_at;
    -- consumers first: pgqueue.complete_claim locks them before messages, too
    delete from pgqueue.consumer where queue_id = dropped;
    delete from pgqueue.message where queue_id = dropped;
    delete from pgqueue.scheduled_message where queue_id = dropped;
    delete from pgqueue.dead_letter where queue_id = dropped;
    delete from pgqueue.failed_message where queue_id = dropped;
    delete from pgqueue.session where queue_id = dropped;
    delete from pgqueue.waiting_session where queue_id = dropped;
    delete from pgqueue.message_group where queue_id = dropped;
    delete from pgqueue.group_limit where queue_id = dropped;
    delete from pgqueue.slot where queue_id = dropped;
    delete from pgqueue.watch where queue_id = dropped;
    delete from pgqueue.sent_message_id where queue_id = dropped;
    delete from pgqueue.unique_key where queue_id = dropped;
    delete from pgqueue.outcome where queue_id = dropped;
    delete from pgqueue.waiting_for_outcome where queue_id = dropped;
    delete from pgqueue.recorded_effect where queue_id = dropped;
    delete from pgqueue.published_batch where queue_id = dropped;
    delete from pgqueue.sweep_progress where queue_id = dropped;
    perform pgqueue._leave_batches(dropped, array(select sequence_number from pgqueue.batch_member where queue_id = dropped), 'DELETED');
    perform pgqueue._drop_staged(array(select name from pgqueue.staged_batch where queue_id = dropped));
end
$$;
