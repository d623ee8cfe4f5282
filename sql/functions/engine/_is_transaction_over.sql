-- Returns whether all transactions with smaller ids are over, except for those that pgqueue._advance_cursors awaits.
create or replace function pgqueue._is_transaction_over(queue_id integer, horizon_xid xid8)
returns boolean
language plpgsql
as $$
begin
    if pg_snapshot_xmin(pg_current_snapshot()) >= horizon_xid then
        return true;                     -- the usual case, and cheap: an expression, not a statement
    end if;
    return not exists (
        select open from pg_snapshot_xip(pg_current_snapshot()) as open where open < horizon_xid
        except
        select unnest(awaited)
          from pgqueue.queue
         cross join lateral pgqueue._progress(queue.id, queue.lanes)
         where queue.id = _is_transaction_over.queue_id);
end
$$;
