-- Checks that there is a lock token for every sequence number.
-- Raises  PQ007 invalid argument.
create or replace function pgqueue._check_locks(sequence_numbers bigint[], lock_tokens uuid[])
returns void
language plpgsql
as $$
declare
    numbers integer := cardinality(sequence_numbers);
    tokens  integer := cardinality(lock_tokens);
begin
    if numbers is null or numbers is distinct from tokens then
        perform pgqueue._refuse_argument(
            'lock_tokens', 'as many as the sequence_numbers',
            format('%s for %s', coalesce(tokens, 0), coalesce(numbers, 0)));
    end if;
end
$$;
