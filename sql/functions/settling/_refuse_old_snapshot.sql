-- Checks whether the snapshot of a transaction at REPEATABLE READ or above hides a lock that is younger than the
-- snapshot. Such a lock is not lost: PostgreSQL refuses to lock a row that has changed since, and the transaction can
-- be retried.
-- Raises  40001 serialization failure.
create or replace function pgqueue._refuse_old_snapshot(queue pgqueue.queue, sequence_number bigint, is_dead boolean)
returns void
language plpgsql
as $$
#variable_conflict use_column
begin
    if current_setting('transaction_isolation') = 'read committed' then
        return;
    end if;
    if is_dead then
        perform from pgqueue.dead_letter
          where queue_id = queue.id and sequence_number = _refuse_old_snapshot.sequence_number
            for update skip locked;
    else
        perform from pgqueue.message
          where queue_id = queue.id and lane = any (queue.fresh_lanes) and position = _refuse_old_snapshot.sequence_number
            for update skip locked;
        perform from pgqueue.message
          where queue_id = queue.id and lane % 2 = 0 and sequence_number = _refuse_old_snapshot.sequence_number
            for update skip locked;
    end if;
end
$$;
