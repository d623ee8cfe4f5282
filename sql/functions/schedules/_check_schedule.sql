-- Checks the arguments of pgqueue.create_schedule that are not those of its message. Of a cron expression only the number
-- of its fields is checked: clients can read it, and report what is wrong in the schedule's last error.
-- Raises  PQ007 invalid argument.
create or replace function pgqueue._check_schedule(
    name       text,
    cron       text,
    every      interval,
    timezone   text,
    catch_up   text,
    jitter     interval,
    starts_at  timestamptz,
    ends_at    timestamptz,
    message_id text,
    moment     timestamptz
)
returns void
language plpgsql
as $$
#variable_conflict use_variable
declare
    flaw record;
begin
    if num_nonnulls(cron, every) <> 1 then
        perform pgqueue._refuse(
            'PQ007', 'give either cron or every' || case when cron is null then '' else ', not both' end);
    end if;
    select rule.* into flaw
      from (values
           ('the name of a schedule',
            'at most 100 letters, digits, dots, underscores, hyphens and slashes, with a letter or digit at each end',
            quote_literal(name),
            coalesce(length(name) <= 100 and name ~ '^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$', false)),
           ('cron', 'five fields, minute hour day-of-month month day-of-week, such as ''30 2 * * *''', quote_literal(cron),
            cron ~ '^\s*\S+(\s+\S+){4,5}\s*$'),
           ('every', 'positive and at most a hundred years, in days and units of time', every::text,
            every > interval '0' and every <= interval '36500 days'
            and extract(year from every) = 0 and extract(month from every) = 0),
           ('timezone', 'the name of a time zone, such as ''Europe/Zurich''; pg_timezone_names lists them',
            quote_literal(timezone),
            timezone = 'UTC' or exists (select from pg_timezone_names as known where known.name = timezone)),
           ('catch_up', 'none, last or all', quote_literal(catch_up), coalesce(catch_up in ('none', 'last', 'all'), false)),
           ('jitter', 'from 0 to 1 day', jitter::text, jitter between interval '0' and interval '1 day'),
           ('starts_at', 'a time within a hundred years', starts_at::text,
            isfinite(starts_at) and abs(extract(epoch from starts_at - moment)) <= 36500 * 86400.0),
           ('ends_at', 'a time after starts_at and in the future', ends_at::text,
            isfinite(ends_at) and ends_at > greatest(moment, starts_at)),
           ('message_id', 'at most 100 characters, because the due time is added to it', length(message_id)::text,
            length(message_id) <= 100)
           ) as rule (argument, must_be, was, holds)
     where not holds
     limit 1;
    if found then
        perform pgqueue._refuse_argument(flaw.argument, flaw.must_be, flaw.was);
    end if;
end
$$;
