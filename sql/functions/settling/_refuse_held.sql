-- Raises  55P03 lock not available, for a message that an open transaction holds, or that another session changes just now.
create or replace function pgqueue._refuse_held(queue text, sequence_number bigint, holder xid)
returns void
language plpgsql
as $$
begin
    perform pgqueue._refuse(
        '55P03', format('message %s of queue %s is held by %s', sequence_number, quote_ident(queue),
                        coalesce(pgqueue._holding_transaction(holder), 'a transaction that changes it just now')),
        'Try again when that transaction has ended; pg_terminate_backend(<process>) ends it.');
end
$$;
