-- Refuses a settlement outside of the transaction that was begun for the message and pins it: that one was ended, or this
-- is another connection.
-- Raises  PQ011 pinned in another transaction.
create or replace function pgqueue._refuse_transaction(queue text, pinned_in xid8)
returns text
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgqueue._refuse(
        'PQ011', format('a message of queue %s is pinned in transaction %s, and this is not that transaction',
                        coalesce(quote_ident(queue), 'null'), pinned_in),
        'Leave COMMIT and ROLLBACK to the library, and settle the message in the transaction that the work was given.',
        'The work has ended the transaction that was begun for its message, or settles it on another connection.');
end
$$;
