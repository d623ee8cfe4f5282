-- Returns in words which transaction holds a row with this xmax; null when none does, or it is this session's own. The
-- process of a savepoint that was released is not known: the savepoint's id is no longer among the locks.
create or replace function pgqueue._holding_transaction(holder xid)
returns text
language plpgsql stable
as $$
declare
    near  xid8 := pg_snapshot_xmax(pg_current_snapshot());
    ahead bigint;
begin
    if exists (select from pg_locks where locktype = 'transactionid' and transactionid = holder and pid = pg_backend_pid()) then
        return null;
    end if;
    ahead := (holder::text::bigint - near::xid::text::bigint + 6442450944) % 4294967296 - 2147483648;    -- ids wrap around
    return coalesce(
        (select format('an open transaction of process %s', concat_ws(', ', held.pid, nullif(application_name, ''), state))
           from pg_locks as held
           left join pg_stat_activity as activity on activity.pid = held.pid
          where held.locktype = 'transactionid' and held.transactionid = holder and held.mode = 'ExclusiveLock' and held.granted
          limit 1),
        (select format('the prepared transaction %s', quote_literal(gid)) from pg_prepared_xacts where transaction = holder),
        case when pg_xact_status((near::text::bigint + ahead)::text::xid8) = 'in progress' then 'an open transaction' end);
exception
    when invalid_parameter_value or numeric_value_out_of_range then      -- no id of a transaction: several hold the row
        return null;
end
$$;
