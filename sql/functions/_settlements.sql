-- The answer of a batch: a row a lock, in the order asked, its sqlstate null when it was `settled`, else PQ001.
-- An atomic batch raises instead.
-- Raises  PQ001 lock lost, when atomic.
create or replace function pgqueue._settlements(
    queue text, sequence_numbers bigint[], settled bigint[], atomic boolean)
returns table (sequence_number bigint, sqlstate text)
language plpgsql
as $$
#variable_conflict use_column
declare
    lost bigint;
begin
    if atomic then
        select number into lost
          from unnest(sequence_numbers) as number
         where number <> all (coalesce(settled, '{}'))
         limit 1;
        if found then
            perform pgqueue._refuse_lost_lock(queue, lost);
        end if;
    end if;
    return query
        select asked.number, case when done.number is null then 'PQ001' end
          from unnest(sequence_numbers) with ordinality as asked (number, nth)
          left join unnest(settled) as done (number) on done.number = asked.number
         order by nth;
end
$$;
