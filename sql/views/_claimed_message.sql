-- The messages of claims, in the queues that the caller may receive from. A task reads those with a `number` in its share of
-- the claim: the fresh ones are found by their positions, the others by their sequence numbers. Conditions on consumer, claim
-- and number are leakproof, so they reach the indexes below. A message that was returned after its lock expired, and that
-- no other receiver has, is found by its sequence number.
create or replace view pgqueue._claimed_message with (security_barrier) as
select queue.name as queue, consumer, claim.claim, number,
       sequence_number, lane, delivery_count, enqueued_time, expires_at,
       -- generated: {message_id to application_properties}, body, binary_body, {after session_id if is_kept}
       message_id, correlation_id, subject, content_type, reply_to, application_properties, body, binary_body,
       reply_to_session_id, "to", partition_key
       -- end
  from pgqueue.claim
  join pgqueue.consumer on consumer.name = claim.consumer
  join pgqueue.queue on queue.id = consumer.queue_id and pgqueue._may_see_messages(receivers)
 cross join lateral (
       select position as number, message.*
         from pgqueue.message
        where message.queue_id = queue.id and lane = any (fresh_lanes) and message.lock_token = claim.lock_token
        union all
       select sequence_number as number, message.*
         from pgqueue.message
        where message.queue_id = queue.id and lane % 2 = 0 and message.lock_token = claim.lock_token) as message;
