-- Records that a worker is alive, and its state, for pgqueue.workers. The first call registers it, with an id that the worker
-- has drawn; who registers also removes workers that were not seen for an hour. A worker calls this every fifteen
-- seconds, and pgqueue.remove_worker at its end.
--
-- `uptime` is how long it has been running; `is_alive` is false when one of its loops is stuck; `running` and `waiting` count
-- messages in handlers and ready for one, `overdue` handlers that exceeded their timeout, `handled` and `failed` messages
-- since its start. `failing` holds the loops that fail at the moment, each with its error.
-- Raises  PQ002 unknown queue, PQ007 invalid argument, 42501 unless the caller may receive from all of the queues, or when the
--         worker is one of another role; 53400 when a role has registered 10,000 workers.
-- Locks   the worker's row, until the transaction ends; where another session has locked it, the call does nothing. Waits a tenth
--         of a second for others, because locks may have to be renewed meanwhile.
create or replace function pgqueue.heartbeat(
    worker      uuid,
    host        text,
    pid         integer,
    version     text,
    queues      text[],
    concurrency integer,
    uptime      interval default interval '0',
    is_alive    boolean  default true,
    is_stopping boolean  default false,
    running     integer  default 0,
    waiting     integer  default 0,
    overdue     integer  default 0,
    handled     bigint   default 0,
    failed      bigint   default 0,
    failing     jsonb    default '{}'
)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
#variable_conflict use_variable
declare
    most    constant integer := 10000;
    moment  timestamptz      := pgqueue.clock();
    caller  text             := pgqueue._caller();
    served  text;
    known   pgqueue.worker;
    place   tid;
begin
    if cardinality(queues) is null or cardinality(queues) not between 1 and 1000 then
        perform pgqueue._refuse_argument('queues', '1 to 1000 names', cardinality(queues)::text);
    end if;
    perform pgqueue._refuse_argument(argument, must_be, was)
       from (values
            ('host', 'a text of at most 255 characters', 'one of ' || length(host), length(host) <= 255),
            ('version', 'a text of at most 100 characters', 'one of ' || length(version), length(version) <= 100),
            ('failing', 'an object of at most 10000 bytes', jsonb_typeof(failing),
             jsonb_typeof(failing) = 'object' and octet_length(failing::text) <= 10000),
            ('worker', 'an id', null, worker is not null),
            ('pid', 'a number', null, pid is not null),
            ('concurrency', 'a number', null, concurrency is not null),
            ('uptime', 'a duration', null, uptime is not null),
            ('is_alive', 'true or false', null, is_alive is not null),
            ('is_stopping', 'true or false', null, is_stopping is not null),
            ('running', 'a number', null, running is not null),
            ('waiting', 'a number', null, waiting is not null),
            ('overdue', 'a number', null, overdue is not null),
            ('handled', 'a number', null, handled is not null),
            ('failed', 'a number', null, failed is not null)) as given (argument, must_be, was, holds)
      where holds is not true;
    perform pgqueue._check_duration('uptime', uptime, even_zero => true);
    foreach served in array queues loop
        perform pgqueue._find_queue(served, 'RECEIVE');
    end loop;
    select * into known from pgqueue.worker as newest where newest.id = worker order by beat desc limit 1;
    if found then
        if known.role <> caller then
            perform pgqueue._refuse(
                '42501', format('worker %s is one of role %I, not of %I', worker, known.role, caller),
                'Draw another id: gen_random_uuid().');
        end if;
        select ctid into place from pgqueue.worker as newest where newest.id = worker and beat = known.beat for update skip locked;
        update pgqueue.worker as newest
           set beat = beat + 1, seen_at = moment, is_alive = heartbeat.is_alive, is_stopping = heartbeat.is_stopping,
               running = heartbeat.running, waiting = heartbeat.waiting, overdue = heartbeat.overdue,
               handled = heartbeat.handled, failed = heartbeat.failed, failing = heartbeat.failing
         where ctid = place;
        return;
    end if;
    perform pgqueue._forget_workers(dry_run => false);
    if most <= (select count(*) from (select from pgqueue.registered_worker as registered where registered.role = caller limit most) as found) then
        perform pgqueue._refuse(
            '53400', format('role %I has registered %s workers, the most it may', caller, most),
            'Workers that were not seen for an hour are forgotten; pgqueue.remove_worker removes one before.');
    end if;
    insert into pgqueue.registered_worker (id, role) values (worker, caller) on conflict do nothing;
    insert into pgqueue.worker (
        id, role, host, pid, version, queues, concurrency, started_at, seen_at, is_alive, is_stopping, running, waiting, overdue,
        handled, failed, failing)
    values (worker, caller, host, pid, version, queues, concurrency, moment - uptime, moment, is_alive, is_stopping, running,
            waiting, overdue, handled, failed, failing)
        on conflict do nothing;
end
$$;
