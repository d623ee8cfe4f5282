-- Checks the settings passed to create_queue and alter_queue; a null setting was not given.
-- Raises  PQ007 invalid argument.
create or replace function pgqueue._check_settings(
    -- generated rows: {all settings if holds: $name | $type}
    lock_duration                           interval,
    max_delivery_count                      integer,
    max_message_size                        bigint,
    status                                  text,
    default_message_time_to_live            interval,
    duplicate_detection_history_time_window interval,
    max_queue_length                        bigint,
    retain_history                          interval,
    retain_errors                           integer,
    auto_delete_on_idle                     interval,
    max_receive_rate                        double precision,
    max_concurrent                          integer,
    priority_ageing                         interval,
    result_retention                        interval,
    max_concurrent_per_group                integer,
    max_receive_rate_per_group              double precision
    -- end
)
returns void
language plpgsql
as $$
begin
    perform pgqueue._refuse_argument(name, must_be, was)
       from (values
            -- generated rows: {all settings if holds: ('$key', '$must_be', $was, $holds)}
            ('lock_duration', 'from 1 millisecond to 7 days', lock_duration::text, lock_duration between interval '1 millisecond' and interval '7 days'),
            ('max_delivery_count', 'a positive whole number', max_delivery_count::text, max_delivery_count > 0),
            ('max_message_size', 'a positive whole number', max_message_size::text, max_message_size > 0),
            ('status', 'ACTIVE, DISABLED, SEND_DISABLED or RECEIVE_DISABLED', quote_literal(status), status in ('ACTIVE', 'DISABLED', 'SEND_DISABLED', 'RECEIVE_DISABLED')),
            ('default_message_time_to_live', 'positive and at most a hundred years', default_message_time_to_live::text, default_message_time_to_live > interval '0' and default_message_time_to_live <= interval '36500 days'),
            ('duplicate_detection_history_time_window', 'from 20 seconds to 7 days', duplicate_detection_history_time_window::text, duplicate_detection_history_time_window between interval '20 seconds' and interval '7 days'),
            ('max_queue_length', 'a positive whole number', max_queue_length::text, max_queue_length > 0),
            ('retain_history', 'from 1 minute to 60 days', retain_history::text, retain_history between interval '1 minute' and interval '60 days'),
            ('retain_errors', 'from 1 to 100', retain_errors::text, retain_errors between 1 and 100),
            ('auto_delete_on_idle', 'from 5 minutes to a hundred years', auto_delete_on_idle::text, auto_delete_on_idle between interval '5 minutes' and interval '100 years'),
            ('max_receive_rate', 'from 0.001 to 10000 messages a second', max_receive_rate::text, max_receive_rate between 0.001 and 10000),
            ('max_concurrent', 'from 1 to 10000', max_concurrent::text, max_concurrent between 1 and 10000),
            ('priority_ageing', 'from 1 second to 30 days', priority_ageing::text, priority_ageing between interval '1 second' and interval '30 days'),
            ('result_retention', 'from 1 minute to 60 days', result_retention::text, result_retention between interval '1 minute' and interval '60 days'),
            ('max_concurrent_per_group', 'from 1 to 1000', max_concurrent_per_group::text, max_concurrent_per_group between 1 and 1000),
            ('max_receive_rate_per_group', 'from 0.001 to 10000 messages a second', max_receive_rate_per_group::text, max_receive_rate_per_group between 0.001 and 10000)
            -- end
            ) as given (name, must_be, was, is_sane)
      where not is_sane;
end
$$;
