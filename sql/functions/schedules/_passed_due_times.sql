-- Returns the due times of a schedule that have come and are not dealt with, the latest 1000 at most, in their order.
create or replace function pgqueue._passed_due_times(known pgqueue.schedule, moment timestamptz)
returns timestamptz[]
language sql stable
as $$
    select array(
        select due
          from (select due
                  from unnest(known.next_due || known.later) as due
                 where known.cron is not null and due <= moment
                 union all
                select latest - nth * known.every
                  from (select known.next_due + count * known.every, count
                          from floor(extract(epoch from least(moment, known.ends_at) - known.next_due)
                                     / extract(epoch from known.every)) as count) as passed (latest, count)
                 cross join generate_series(0, least(count, 999)::integer) as nth
                 where known.every is not null
                 order by 1 desc
                 limit 1000) as passed
         order by due);
$$;
