-- Takes the lock of a message away from any holder: it is notified at once where it listens, its settlements and
-- renewals fail, as they do when a lock is lost, and the message is delivered again at once, before the fresh ones. The
-- delivery has counted: a message that was delivered as often as its queue allows is dead-lettered. A deferred message
-- is deferred again. A lock that has expired counts, too, as long as its holder could still settle the message. Under
-- the name '<queue>/$deadletterqueue' the lock is that of a dead letter.
-- Raises  PQ002 unknown queue; PQ006 message not found, when no message with this number is locked; 55P03 when an open
--         transaction holds the message.
-- Locks   the message, until the transaction ends; does not wait.
create or replace function pgqueue.unlock(queue text, sequence_number bigint)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    is_dead boolean       := pgqueue._is_dead_letter_queue(queue);
    source  pgqueue.queue := pgqueue._find_queue(case when is_dead then pgqueue._dead_letters_of(queue) else queue end, 'RECEIVE');
    holder  xid;
    place   tid;
    places  tid[];
begin
    perform pgqueue._check_admin(queue);
    if is_dead then
        select ctid, xmax into place, holder
          from pgqueue.dead_letter
         where queue_id = source.id and sequence_number = unlock.sequence_number and lock_token is not null;
        perform
           from pgqueue.dead_letter
          where ctid = place and sequence_number = unlock.sequence_number and lock_token is not null
            for update skip locked;
    else
        select ctid, xmax into place, holder
          from pgqueue.message
         where ctid = any (pgqueue._find_message(source, unlock.sequence_number)) and lock_token is not null;
        perform
           from pgqueue.message
          where ctid = place and sequence_number = unlock.sequence_number and lock_token is not null
            for update skip locked;
    end if;
    if place is null then
        perform pgqueue._refuse_unknown_message(source, 'locked', unlock.sequence_number);
    elsif not found then
        perform pgqueue._refuse(
            '55P03', format('message %s of queue %s is held by %s', unlock.sequence_number, quote_ident(queue),
                            coalesce(pgqueue._holding_transaction(holder), 'a transaction that changes it just now')),
            'Try again when that transaction has ended; pg_terminate_backend(<process>) ends it.');
    elsif is_dead then
        update pgqueue.dead_letter set locked_until = null, lock_token = null, locked_by = null where ctid = place;
        return;
    end if;
    perform pgqueue._announce_loss(source, unlock.sequence_number);
    perform pgqueue._release_groups(source, array[place]);
    places := pgqueue._exhausted(source, array[place]);
    if places <> '{}' then
        perform pgqueue._move_exhausted(source, places, ended => 'was unlocked');
    else
        perform pgqueue._redeliver(array[place], settled => true);
    end if;
    if source.awaited_until > pgqueue.clock() then
        perform pgqueue._notify(source);
    end if;
end
$$;
