-- The errors that deliveries of present messages and dead letters failed with, the oldest of each message first: the last
-- ones as its queue retains them with `retain_errors`, the last one alone where it does not. By queue and sequence number.
create or replace view pgqueue.delivery_log with (security_barrier) as
select queue.name as queue,
       sequence_number,
       (error ->> 'delivery_count')::integer as delivery_count,
       date_trunc('second', (error ->> 'failed_at')::timestamptz) as failed_at,
       error ->> 'type' as error_type,
       error ->> 'text' as error_text,
       error ->> 'locked_by' as locked_by,
       error ->> 'traceback' as traceback
  from (select * from pgqueue.queue where pgqueue._may_see_messages(receivers) order by name) as queue
 cross join lateral (
       select *
         from pgqueue.failed_message
        where failed_message.queue_id = queue.id
        order by sequence_number
        limit (select null::bigint)) as failed                -- no limit, but the planner takes the order from the index
 cross join lateral jsonb_array_elements(
       case when delivery_log is not null then delivery_log
            when last_error is not null then jsonb_build_array(last_error) end) as error;
