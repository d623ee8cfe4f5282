-- Raises  PQ002 unknown queue; PQ007 invalid argument, when the name denotes dead letters and the verb does not support
--         them.
create or replace function pgqueue._refuse_unknown_queue(queue text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if pgqueue._is_dead_letter_queue(queue) then
        raise exception using
            errcode = 'PQ007',
            message = format('dead letters are received, completed, abandoned, resubmitted or purged, nothing else: not %s', queue),
            hint    = 'Name the queue they belong to, without ''/$deadletterqueue''.';
    end if;
    raise exception using
        errcode = 'PQ002',
        message = format('queue %s does not exist', coalesce(quote_ident(queue), 'null')),
        hint    = 'Create it with pgqueue.create_queue, or list what exists in pgqueue.queues.';
end
$$;
