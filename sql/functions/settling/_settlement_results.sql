-- Builds the result of a batch: one row per lock, in the order given, with a null sqlstate if the lock was `proven`,
-- else PQ001. An atomic batch raises instead.
-- Raises  PQ001 lock lost, when atomic.
create or replace function pgqueue._settlement_results(
    queue text, sequence_numbers bigint[], proven bigint[], atomic boolean)
returns table (sequence_number bigint, sqlstate text)
language plpgsql
as $$
#variable_conflict use_column
declare
    lost bigint;
begin
    if cardinality(proven) = cardinality(sequence_numbers) then
        return query select unnest(sequence_numbers), null::text;
        return;
    elsif atomic and cardinality(proven) < cardinality(sequence_numbers) then
        select number into lost
          from unnest(sequence_numbers) with ordinality as asked (number, nth)
          left join unnest(proven) as held (nth) using (nth)
         where held.nth is null
         limit 1;
        perform pgqueue._refuse_lost_lock(queue, lost);
    end if;
    return query
        select number, case when held.nth is null then 'PQ001' end
          from unnest(sequence_numbers) with ordinality as asked (number, nth)
          left join unnest(proven) as held (nth) on held.nth = asked.nth
         order by asked.nth;
end
$$;
