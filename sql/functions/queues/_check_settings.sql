-- Checks the settings passed to create_queue and alter_queue; a null setting was not given.
-- Raises  PQ007 invalid argument.
create or replace function pgqueue._check_settings(
    lock_duration                           interval,
    max_delivery_count                      integer,
    max_message_size                        bigint,
    status                                  text,
    default_message_time_to_live            interval,
    duplicate_detection_history_time_window interval,
    max_queue_length                        bigint,
    retain_history                          interval
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    setting record;
begin
    for setting in
        select *
          from (values
               ('lock_duration', 'from 1 millisecond to 7 days', lock_duration::text,
                lock_duration between interval '1 millisecond' and interval '7 days'),
               ('max_delivery_count', 'a positive whole number', max_delivery_count::text, max_delivery_count > 0),
               ('max_message_size', 'a positive whole number', max_message_size::text, max_message_size > 0),
               ('status', 'ACTIVE, DISABLED, SEND_DISABLED or RECEIVE_DISABLED', quote_literal(status),
                status in ('ACTIVE', 'DISABLED', 'SEND_DISABLED', 'RECEIVE_DISABLED')),
               ('default_message_time_to_live', 'positive and at most a hundred years', default_message_time_to_live::text,
                default_message_time_to_live > interval '0' and default_message_time_to_live <= interval '100 years'),
               ('duplicate_detection_history_time_window', 'from 20 seconds to 7 days',
                duplicate_detection_history_time_window::text,
                duplicate_detection_history_time_window between interval '20 seconds' and interval '7 days'),
               ('max_queue_length', 'a positive whole number', max_queue_length::text, max_queue_length > 0),
               ('retain_history', 'from 1 minute to 60 days', retain_history::text,
                retain_history between interval '1 minute' and interval '60 days')
               ) as given (name, must_be, was, is_sane)
         where not is_sane
    loop
        perform pgqueue._refuse_argument(setting.name, setting.must_be, setting.was);
    end loop;
end
$$;
