-- Creates a table into which one part of a job is copied, by whatever means is fastest, before it is published. The
-- columns are named like the arguments of pgqueue.send_batch, in the singular. Call pgqueue.check_staged in the
-- transaction that fills the table. The table is not logged: a crash of the server empties it, and pgqueue.publish then
-- raises.
-- Returns  the name of the table, in the schema pgqueue.
-- Raises   PQ002 unknown queue, PQ004 queue disabled, PQ007 invalid argument.
create or replace function pgqueue.stage(queue text, job text, part text, columns text[])
returns text
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    target  pgqueue.queue := pgqueue._find_queue(queue, 'SEND');
    name    text          := format('staged_%s_%s', job, part);
    unknown text;
    layout  text;
begin
    if target.status in ('DISABLED', 'SEND_DISABLED') then
        perform pgqueue._refuse_disabled(target);
    end if;
    if target.requires_session or target.fair then
        perform pgqueue._refuse_argument('the queue', 'one without sessions and groups', quote_ident(queue));
    end if;
    if job is null or part is null or octet_length(name) > 63 then
        perform pgqueue._refuse_argument('job and part', 'at most 55 bytes together', octet_length(job || part)::text);
    end if;
    select given, list into unknown, layout
      from (select min(given) filter (where type is null) as given,
                   string_agg(format('%I %s', coalesce(given, ''), type), ', ' order by nth) as list
              from unnest(columns) with ordinality as asked (given, nth)
              left join pgqueue._staged_types() as known (name, type) on known.name = given) as described;
    if unknown is not null or not columns && '{body,binary_body}'
       or cardinality(columns) <> (select count(distinct given) from unnest(columns) as given) then
        perform pgqueue._refuse_argument(
            'columns', 'a body or a binary_body, and others among ' || (select string_agg(known.name, ', ') from pgqueue._staged_types() as known),
            coalesce(unknown, columns::text));
    end if;
    perform pgqueue._use(target, sends => true);
    execute format('create unlogged table pgqueue.%I (%s) with (autovacuum_enabled = off)', name, layout);
    execute format('grant insert on pgqueue.%I to %I', name, pgqueue._caller());
    insert into pgqueue.staged_batch (name, queue_id, job, staged_at) values (name, target.id, job, pgqueue.clock());
    return name;
end
$$;
