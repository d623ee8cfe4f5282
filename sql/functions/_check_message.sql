-- What every send proves before it stores anything; opens the lanes of a priority never used before.
-- Raises  PQ004 queue disabled, PQ005 message too large, PQ007 invalid argument.
create or replace function pgqueue._check_message(
    target                 pgqueue.queue,
    body                   jsonb,
    binary_body            bytea,
    application_properties jsonb,
    priority               integer
)
returns void
language plpgsql
as $$
declare
    size bigint;
begin
    if target.status in ('DISABLED', 'SEND_DISABLED') then
        perform pgqueue._refuse_disabled(target);
    end if;
    if (body is null) = (binary_body is null) then
        perform pgqueue._refuse_argument('a message', 'a body or a binary_body', case when body is null then 'neither' else 'both' end);
    end if;
    if priority is null or priority not between -100 and 100 then
        perform pgqueue._refuse_argument('priority', 'a whole number from -100 to 100', priority::text);
    end if;
    if target.max_message_size is not null then
        size := octet_length(coalesce(binary_body, convert_to(body::text, 'UTF8')))
              + coalesce(octet_length(application_properties::text), 0);
        if size > target.max_message_size then
            perform pgqueue._refuse_size(target, 'the message', size);
        end if;
    end if;
    if not (2 * priority + 1)::smallint = any (target.fresh_lanes) then
        perform pgqueue._open_lanes(target.id, priority);
    end if;
end
$$;
