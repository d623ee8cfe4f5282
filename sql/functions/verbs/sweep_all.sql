-- Tidies up all queues, for pg_cron: calls pgqueue.sweep for each of pgqueue.queues_to_sweep, at most `max_messages` at a time, and commits,
-- until nothing is left to do or the time that it `lasts` is over; what is left then is for the next call. Call it outside of a transaction:
-- `call pgqueue.sweep_all()`.
-- Raises   PQ007 invalid argument, 2D000 when it is called within a transaction.
-- Locks    as pgqueue.sweep, in each of its transactions.
create or replace procedure pgqueue.sweep_all(
    max_messages integer  default 1000,
    lasts        interval default interval '50 seconds'
)
language plpgsql
as $$
declare
    is_over_at pg_catalog.timestamptz := pg_catalog.clock_timestamp() operator(pg_catalog.+)
                                         greatest(least(lasts, interval '36500 days'), interval '0');
    part       pg_catalog.text[];
    is_more    pg_catalog.bool;
    is_refused pg_catalog.bool;
begin
    for part in select queues from pgqueue.queues_to_sweep() as queues loop
        loop
            select coalesce(pg_catalog.bool_or(more), false), coalesce(pg_catalog.bool_or(more is null), false)
              into is_more, is_refused
              from pgqueue.sweep(max_messages, queues => part);
            commit;
            if is_refused or pg_catalog.clock_timestamp() operator(pg_catalog.>=) is_over_at then
                return;
            end if;
            exit when not is_more;
        end loop;
    end loop;
end
$$;
