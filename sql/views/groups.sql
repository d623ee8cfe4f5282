-- Groups of fair queues that have messages, or limits of their own: how many of the first hundred messages of each wait and are locked; its
-- limits; and from when on receives look at it again, which is later than now while its messages are locked, or its limits are reached.
create or replace view pgqueue.groups with (security_barrier) as
select queue.name as queue,
       known.group_id,
       waiting,
       locked,
       nullif(coalesce(own.max_concurrent, queue.max_concurrent_per_group), 0) as max_concurrent,
       nullif(coalesce(own.max_receive_rate, queue.max_receive_rate_per_group), 0) as max_receive_rate,
       date_trunc('second', available_at) as available_at
  from (select *
          from pgqueue.queue
         where not requires_session and ((select pgqueue._may_see_locks('{}')) or pgqueue._may_see_locks(receivers))
         order by name) as queue
 cross join lateral (
       select session_id as group_id from pgqueue.waiting_session as ring where ring.queue_id = queue.id
        union
       select group_id from pgqueue.group_limit where group_limit.queue_id = queue.id) as known
  left join pgqueue.group_limit as own on own.queue_id = queue.id and own.group_id = known.group_id
 cross join lateral (
       select min(available_at) as available_at
         from pgqueue.waiting_session as ring
        where ring.queue_id = queue.id and ring.session_id = known.group_id) as next
 cross join lateral (
       select count(*) filter (where locked_until is null or locked_until <= pgqueue.clock()) as waiting,
              count(*) filter (where locked_until > pgqueue.clock() and lock_token is not null) as locked
         from (select locked_until, lock_token
                 from pgqueue.message
                where message.queue_id = queue.id and lane = 2000 and message.session_id = known.group_id
                order by session_id, position
                limit 100) as first) as present
 where waiting + locked > 0 or own.group_id is not null;
