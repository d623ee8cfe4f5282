-- Outcomes of settled messages, in queues with `result_retention`, for as long as it lasts: COMPLETED, DEAD_LETTERED or DELETED.
-- A dead letter that was resubmitted has its outcome until it is settled again; pgqueue.result does not return that.
create or replace view pgqueue.results with (security_barrier) as
select queue.name as queue,
       sequence_number, state, result, error, settled_at
  from (select *
          from pgqueue.queue
         where result_retention is not null and (pgqueue._may_see_messages(receivers) or pgqueue._may_view_sent(senders))
         order by name) as queue
 cross join lateral (
       select *
         from pgqueue.outcome
        where outcome.queue_id = queue.id and settled_at > (select pgqueue.clock()) - result_retention
        order by settled_at) as ended;
