-- Removes workers that were not seen for an hour: they were killed, or cannot reach the database. So it does with those
-- that were seen when the clock was an hour ahead. With `dry_run` they are only counted.
-- Returns  how many.
create or replace function pgqueue._forget_workers(dry_run boolean)
returns integer
language plpgsql
as $$
declare
    since   timestamptz := pgqueue.clock() - interval '1 hour';
    until   timestamptz := since + interval '2 hours';
    expired uuid[]      := array(
        select id
          from pgqueue.registered_worker
         cross join lateral (
               select seen_at from pgqueue.worker where worker.id = registered_worker.id order by beat desc limit 1) as newest
         where seen_at not between since and until);
    places  tid[];
begin
    if not dry_run then
        select array_agg(gone.id), array_agg(place) into expired, places
          from unnest(expired) as gone (id)
         cross join lateral (
               select ctid as place
                 from pgqueue.worker
                where worker.id = gone.id and seen_at not between since and until
                order by beat desc
                limit 1
                  for update skip locked) as newest;
        delete from pgqueue.worker where ctid = any (places);
        delete from pgqueue.registered_worker where id = any (expired);
    end if;
    return coalesce(cardinality(expired), 0);
end
$$;
