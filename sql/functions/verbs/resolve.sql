-- Finds the outcome of a settlement whose transaction can no longer be observed: its connection broke during COMMIT,
-- its caller was interrupted, or the outcome was not kept. `transaction_id` is what the settlement returned, or null
-- when that is not known. With null, the message itself is examined: call it outside of the transaction in question.
-- `server_run` is what pgqueue.server_run returned in that transaction: in another run of the server the id may be
-- another transaction's, so it proves no COMMIT, and the message is examined. Without it the id counts in any run.
-- `locked_until` is when the lock expires, as the caller knows it.
--
-- A settlement that was undone by a rollback to a savepoint counts as aborted. So does a settlement whose transaction
-- the server does not know, because it crashed before it wrote the transaction to disk, and one whose message is still
-- there with the same token, unless its session has delivered it again since. A standby may not have replayed the
-- transaction yet, so it knows no outcome.
-- Returns  'committed'; 'aborted'; 'in progress', also for prepared transactions, and on a standby; 'gone' when the
--          message is examined and no message has this token: this settlement has committed, or another one did after
--          the lock had expired, or the lock was lost with a failover. While the lock lasts only its holder can have
--          ended it: then the answer is 'committed' instead, unless the message is there without it, the timeline has
--          changed, or its session is no longer locked with this token. A cancelled, unlocked or purged message counts as settled.
-- Raises   PQ002 unknown queue.
-- Locks    when the message is examined, that message, unless another session holds it, until the transaction ends.
create or replace function pgqueue.resolve(
    queue           text,
    sequence_number bigint,
    lock_token      uuid,
    transaction_id  xid8,
    server_run      text        default null,
    locked_until    timestamptz default null
)
returns text
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    is_dead boolean := pgqueue._is_dead_letter_queue(queue);
    source  pgqueue.queue := pgqueue._find_queue(case when is_dead then pgqueue._dead_letters_of(queue) else queue end, 'RECEIVE');
    outcome text;
    place   tid;                                         -- of a dead letter
    is_ours boolean;
begin
    if pg_is_in_recovery() then
        return 'in progress';
    end if;
    begin
        outcome := pg_xact_status(transaction_id);
    exception when invalid_parameter_value then  -- the id is in the future
        return 'aborted';
    end;
    if outcome = 'aborted' then
        return outcome;                                  -- whichever had the id: a committed one is never given out again
    elsif server_run <> pgqueue.server_run() then
        transaction_id := null;
    elsif outcome = 'in progress' and transaction_id is distinct from pg_current_xact_id_if_assigned() then
        return outcome;
    end if;
    if is_dead then
        select ctid into place
          from pgqueue.dead_letter
         where queue_id = source.id
           and dead_letter.sequence_number = resolve.sequence_number and dead_letter.lock_token = resolve.lock_token;
        is_ours := found;
    else
        is_ours := exists (select from pgqueue._find_by_token(source, array[sequence_number], array[lock_token]));
        if is_ours and source.requires_session and transaction_id is not null and outcome = 'committed' then
            is_ours := not exists (                      -- delivered again since, under the same token
                select
                  from pgqueue.message
                 where ctid = any (pgqueue._find_message(source, resolve.sequence_number))
                   and (message.xmin::text::bigint - transaction_id::xid::text::bigint + 4294967296) % 4294967296
                       between 1 and 2147483647);        -- ids wrap around
        end if;
    end if;
    if transaction_id is not null then
        return case when is_ours then 'aborted' else coalesce(outcome, 'committed') end;
    elsif not is_ours then
        return case when pgqueue.clock() < locked_until
                     and coalesce(left(server_run, 8) = left(pgqueue.server_run(), 8), true)     -- no lock was forgotten
                     and (is_dead or not source.requires_session or exists (      -- or released
                         select from pgqueue.session where queue_id = source.id and session.lock_token = resolve.lock_token))
                     and (is_dead or not exists (
                         select from pgqueue.message
                          where ctid = any (pgqueue._find_message(source, resolve.sequence_number))
                            and not pgqueue._is_deferred(lane)))
                    then 'committed' else 'gone' end;
    elsif is_dead then
        perform from pgqueue.dead_letter where ctid = place for update skip locked;
        return case when found then 'aborted' else 'in progress' end;
    end if;
    return case when pgqueue._lock_unheld(source, array[sequence_number], array[lock_token]) <> '{}'
                then 'aborted' else 'in progress' end;
end
$$;
