-- Workers, by name, which is that of `locked_by` in other views: how each is, what it serves, and what it has done since its
-- start. `state` is SERVING; FAILING while a loop of it fails, usually because it cannot reach the database; STUCK when a loop
-- has not completed a round for a minute; STOPPING; or MISSING when it was not seen for a minute, because it was killed,
-- hangs, or cannot reach the database. After an hour a sweep removes it. Shown are the queues that the role may receive from
-- or monitor, and the errors to who sees all of them.
create or replace view pgqueue.workers with (security_barrier) as
select host || ':' || pid as name,
       case when seen_at < pgqueue.clock() - interval '1 minute' then 'MISSING'
            when is_stopping then 'STOPPING'
            when not is_alive then 'STUCK'
            when failing <> '{}' then 'FAILING'
            else 'SERVING' end as state,
       date_trunc('second', greatest(pgqueue.clock() - seen_at, interval '0')) as not_seen_for,
       shown.queues, concurrency, running, waiting, overdue, handled, failed,
       case when cardinality(shown.queues) = cardinality(worker.queues) then failing end as failing,
       date_trunc('second', started_at) as started_at,
       date_trunc('second', seen_at) as seen_at,
       version, host, pid, worker.role, worker.id
  from pgqueue.registered_worker as registered
 cross join lateral (
       select * from pgqueue.worker where worker.id = registered.id order by beat desc limit 1) as worker
 cross join lateral (
       select array(select served
                      from unnest(worker.queues) as served
                      left join pgqueue.queue on name = served
                     where pgqueue._may_see_locks(coalesce(receivers, '{}'))) as queues) as shown
 where shown.queues <> '{}'
 order by host, pid, started_at;
