-- Returns one sentence for each batch that should be finished and is not, or that counts wrongly, and for each member without a message;
-- see pgqueue.broken_invariants.
create or replace function pgqueue._find_broken_batches()
returns setof text
language sql stable
as $$
    select format('batch %s has no open stripe, and is not finished', id)
      from pgqueue.batch
     where open_stripes = 0 and finished_at is null
     union all
    select format('batch %s counts %s pending members in stripe %s, and has %s', batch_id, pending, stripe, members)
      from pgqueue.batch_stripe
     cross join lateral (
           select count(*) as members
             from pgqueue.batch_member
            where batch_member.batch_id = batch_stripe.batch_id and batch_member.stripe = batch_stripe.stripe) as known
     where pending <> members
     union all
    select format('batch %s waits for message %s of queue %s, which is not there', batch_id, sequence_number, queue_id)
      from pgqueue.batch_member as member
     where not exists (
           select
             from pgqueue.message
            where message.queue_id = member.queue_id and message.sequence_number = member.sequence_number)
       and not exists (
           select
             from pgqueue.scheduled_message as scheduled
            where scheduled.queue_id = member.queue_id and scheduled.sequence_number = member.sequence_number)
$$;
