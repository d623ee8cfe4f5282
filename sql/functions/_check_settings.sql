-- What create_queue and alter_queue prove of the settings they are given; null is one that was not given.
-- Raises  PQ007 invalid argument.
create or replace function pgqueue._check_settings(
    lock_duration interval, max_delivery_count integer, max_message_size bigint, status text)
returns void
language plpgsql
as $$
begin
    if lock_duration not between interval '1 millisecond' and interval '7 days' then
        perform pgqueue._refuse_argument('lock_duration', 'from 1 millisecond to 7 days', lock_duration::text);
    end if;
    if max_delivery_count < 1 then
        perform pgqueue._refuse_argument('max_delivery_count', 'a positive whole number', max_delivery_count::text);
    end if;
    if max_message_size < 1 then
        perform pgqueue._refuse_argument('max_message_size', 'a positive whole number', max_message_size::text);
    end if;
    if status not in ('ACTIVE', 'DISABLED', 'SEND_DISABLED', 'RECEIVE_DISABLED') then
        perform pgqueue._refuse_argument(
            'status', 'ACTIVE, DISABLED, SEND_DISABLED or RECEIVE_DISABLED', quote_literal(status));
    end if;
end
$$;
