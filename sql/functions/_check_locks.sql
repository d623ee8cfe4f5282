-- Raises  PQ007 invalid argument, unless every sequence number has a lock token beside it.
create or replace function pgqueue._check_locks(sequence_numbers bigint[], lock_tokens uuid[])
returns void
language plpgsql
as $$
begin
    if sequence_numbers is null or cardinality(sequence_numbers) is distinct from cardinality(lock_tokens) then
        perform pgqueue._refuse_argument(
            'lock_tokens', 'as many as the sequence_numbers',
            format('%s for %s', coalesce(cardinality(lock_tokens), 0), coalesce(cardinality(sequence_numbers), 0)));
    end if;
end
$$;
