-- Deletes a queue that has been idle for as long as it may be: no send, receive or peek, and nothing is locked. Its
-- messages and dead letters are left to pgqueue._remove_orphans. While the server was down the queue could not be used, so the
-- time counts from its start at the earliest. With `dry_run` nothing is changed.
-- Returns  whether the queue is deleted.
-- Locks    the queue; skips it if others hold it, or have sent to it and are not over.
create or replace function pgqueue._delete_idle(source pgqueue.queue, dry_run boolean)
returns boolean
language plpgsql
as $$
declare
    moment timestamptz := pgqueue.clock();
begin
    if source.auto_delete_on_idle is null
       or exists (select from pgqueue.queue where source.id in (forward_to, forward_dead_lettered_messages_to))
       or pg_postmaster_start_time() > moment - source.auto_delete_on_idle
       or not exists (select from pgqueue.queue_use where queue_id = source.id and used_at <= moment - source.auto_delete_on_idle)
       or exists (select from pgqueue.message where queue_id = source.id and locked_until > moment)
       or exists (select from pgqueue.dead_letter where queue_id = source.id and locked_until > moment)
       or exists (select from pgqueue.session where queue_id = source.id and locked_until > moment) then
        return false;
    elsif dry_run then
        return true;
    end if;
    perform from pgqueue.queue where id = source.id and auto_delete_on_idle = source.auto_delete_on_idle for update skip locked;
    if not found then
        return false;
    end if;
    perform
       from pgqueue.queue_use
      where queue_id = source.id and used_at <= moment - source.auto_delete_on_idle
        for update skip locked;
    if not found then
        return false;
    end if;
    delete from pgqueue.queue where id = source.id;
    insert into pgqueue.dropped_queue (queue_id, name, dropped_at) values (source.id, source.name, moment)
        on conflict on constraint dropped_queue_pkey do update set dropped_at = excluded.dropped_at;
    return true;
end
$$;
