-- Records since when a queue is paused; null resumes it. The consumers that wait poll, and learn it.
-- Raises  PQ002 unknown queue.
create or replace function pgqueue._set_paused(name text, since timestamptz)
returns void
language plpgsql
as $$
#variable_conflict use_column
declare
    changed pgqueue.queue;
begin
    update pgqueue.queue
       set paused_at = case when since is not null then coalesce(paused_at, since) end
     where name = _set_paused.name
    returning * into changed;
    if not found then
        perform pgqueue._refuse_unknown_queue(_set_paused.name);
    elsif changed.awaited_until > pgqueue.clock() then
        perform pgqueue._notify(changed);
    end if;
end
$$;
