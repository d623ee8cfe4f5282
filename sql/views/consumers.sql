-- Consumers, which take messages claim by claim, as Spark streams do: how far each has come, and what it holds now.
-- `epoch` is the epoch of the session that attached last. When `locked_until` of a claim is in the past, others may
-- receive its messages; when it is null, the claim holds no messages.
create or replace view pgqueue.consumers with (security_barrier) as
select consumer.name as consumer,
       queue.name as queue,
       open.claim as open_claim,
       open.messages,
       consumer.settled_claim,
       consumer.epoch,
       date_trunc('second', open.claimed_at) as claimed_at,
       date_trunc('second', held.locked_until) as locked_until,
       date_trunc('second', consumer.created_at) as created_at
  from pgqueue.consumer
  join pgqueue.queue on queue.id = consumer.queue_id and pgqueue._may_see_locks(receivers)
  left join pgqueue.claim as open on open.consumer = consumer.name and open.settled_at is null
  left join lateral (
       (select locked_until
          from pgqueue.message
         where message.queue_id = consumer.queue_id and message.lane = any (queue.fresh_lanes)
           and message.position >= lower(open.fresh) and message.position < upper(open.fresh)
           and message.lock_token = open.lock_token
         limit 1)
        union all
       (select locked_until
          from pgqueue.message
         where message.queue_id = consumer.queue_id and message.lane % 2 = 0
           and message.sequence_number >= lower(open.numbers) and message.sequence_number < upper(open.numbers)
           and message.lock_token = open.lock_token
         order by message.sequence_number                     -- by the index in that order, whatever the statistics
         limit 1)
         limit 1) as held on true
 order by consumer.name;
