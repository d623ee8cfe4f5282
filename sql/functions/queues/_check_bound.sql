-- Checks a bound on the number of messages; null means no bound.
-- Raises  PQ007 invalid argument, when it is not positive.
create or replace function pgqueue._check_bound(max_messages integer)
returns void
language plpgsql
as $$
begin
    if max_messages < 1 then
        perform pgqueue._refuse_argument('max_messages', 'a positive whole number', max_messages::text);
    end if;
end
$$;
