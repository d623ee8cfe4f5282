-- The usual queue, as extensions and libraries have it: a table for each queue, so that its statements are put together
-- when it is used; an index on the time from which a message is visible; a scan from the front. Autovacuum has the
-- settings of pgqueue's table.
create schema front_scan;

create table front_scan.bench (
    id          bigint      not null generated always as identity primary key,
    read_count  integer     not null default 0,
    enqueued_at timestamptz not null default now(),
    visible_at  timestamptz not null,
    body        jsonb
) with (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_scale_factor = 10,
    autovacuum_analyze_scale_factor = 10
);

create index bench_visible_at on front_scan.bench (visible_at);

create function front_scan.send(queue text, bodies jsonb[])
returns setof bigint
language plpgsql
as $$
begin
    return query execute format(
        'insert into front_scan.%I (visible_at, body) select clock_timestamp(), body from unnest($1) as body returning id', queue)
        using bodies;
end
$$;

create function front_scan.receive(queue text, max_messages integer)
returns setof front_scan.bench
language plpgsql
as $$
begin
    return query execute format(
        'with free as (
             select id from front_scan.%1$I
              where visible_at <= clock_timestamp()
              order by id
              limit $1
                for update skip locked)
         update front_scan.%1$I as message
            set visible_at = clock_timestamp() + interval ''1 hour'', read_count = read_count + 1
           from free
          where message.id = free.id
         returning message.*', queue)
        using max_messages;
end
$$;

create function front_scan.complete(queue text, ids bigint[])
returns setof bigint
language plpgsql
as $$
begin
    return query execute format('delete from front_scan.%I where id = any ($1) returning id', queue) using ids;
end
$$;
