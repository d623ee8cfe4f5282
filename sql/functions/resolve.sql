-- What became of a settlement whose transaction is out of sight: its connection broke during COMMIT, or nobody watched.
-- A transaction without the settlement, because of a rollback to a savepoint, counts as aborted: once it has committed,
-- and for itself at once. So does one that the server knows nothing of, because it crashed before it wrote it down.
-- Returns  'committed', 'aborted' or 'in progress'.
-- Raises   PQ002 unknown queue, PQ007 invalid argument.
create or replace function pgqueue.resolve(
    queue text, sequence_number bigint, lock_token uuid, transaction_id xid8)
returns text
language plpgsql
as $$
declare
    outcome     text;
    still_there boolean;
begin
    if transaction_id is null then
        perform pgqueue._refuse_argument('transaction_id', 'that of a transaction', null);
    end if;
    begin
        outcome := pg_xact_status(transaction_id);
    exception when invalid_parameter_value then  -- it is in the future
        return 'aborted';
    end;
    if outcome = 'aborted'
       or outcome = 'in progress' and transaction_id is distinct from pg_current_xact_id_if_assigned() then
        return outcome;
    end if;
    if pgqueue._is_dead_letter_queue(queue) then
        still_there := exists (
            select
              from pgqueue.dead_letter
             where queue_id = (pgqueue._find_queue(pgqueue._dead_letters_of(queue))).id
               and dead_letter.sequence_number = resolve.sequence_number and dead_letter.lock_token = resolve.lock_token);
    else
        still_there := exists (
            select from pgqueue._locks(pgqueue._find_queue(queue), array[sequence_number], array[lock_token]));
    end if;
    return case when still_there then 'aborted' else coalesce(outcome, 'committed') end;
end
$$;
