-- Who takes messages claim by claim, as streams of Spark do: how far each has come, and what it holds now. A claim whose
-- `locked_until` is past is free for others; a null one has nothing left.
create or replace view pgqueue.consumers as
select consumer.name as consumer,
       queue.name as queue,
       consumer.settled_claim,
       open.claim as open_claim,
       open.messages,
       open.claimed_at,
       held.locked_until,
       consumer.created_at
  from pgqueue.consumer
  left join pgqueue.queue on queue.id = consumer.queue_id
  left join pgqueue.claim as open on open.consumer = consumer.name and open.settled_at is null
  left join lateral (
       select locked_until
         from pgqueue.message
        where message.queue_id = consumer.queue_id and message.lock_token = open.lock_token
          and message.lane = any (queue.fresh_lanes)
          and message.position >= lower(open.fresh) and message.position < upper(open.fresh)
        limit 1) as held on true
 order by consumer.name;
