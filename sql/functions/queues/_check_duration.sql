-- Checks a duration that is added to a time or taken from it; null was not given.
-- Raises  PQ007 invalid argument.
create or replace function pgqueue._check_duration(argument text, duration interval, even_zero boolean default false)
returns void
language plpgsql
as $$
begin
    if duration < interval '0' or (duration = interval '0' and not even_zero) or duration > interval '36500 days' then
        perform pgqueue._refuse_argument(
            argument, case when even_zero then 'zero or positive' else 'positive' end || ', and at most a hundred years',
            duration::text);
    end if;
end
$$;
