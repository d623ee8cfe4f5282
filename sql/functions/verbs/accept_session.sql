-- Locks a session for `lock_duration` (the queue's own when null), so that only the caller receives its messages: the
-- session with this id, or when it is null the one that has waited longest for a receiver. A session that is released
-- waits behind the others. Commit at once: the lock, not the transaction, keeps the session from others. Without an id,
-- up to `max_sessions` are locked, each with a token of its own.
--
-- A lock that has expired is lost when another receiver accepts the session. While a transaction is open that has settled a
-- message of the session, or written its state, it cannot be accepted.
-- Returns  a row for each session, with its lock token and its state; fewer, or none, when no other has messages that can be
--          received now, and none while the queue is paused.
-- Raises   PQ002 unknown queue, PQ004 queue disabled, PQ007 invalid argument; PQ021 session cannot be locked, when a
--          session is named that another receiver holds.
-- Locks    the session, and those that are found empty; skips whatever others hold.
create or replace function pgqueue.accept_session(
    queue         text,
    session_id    text     default null,
    lock_duration interval default null,
    locked_by     text     default null,
    max_sessions  integer  default 1
)
returns setof pgqueue.accepted_session
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    source     pgqueue.queue := pgqueue._find_session_queue(queue);
    holder     text          := coalesce(accept_session.locked_by, pgqueue._backend_name());
    lasts      interval      := coalesce(accept_session.lock_duration, source.lock_duration);
    has_turned boolean       := false;
    accepted   integer       := 0;
    fetched    bigint        := pg_stat_get_xact_blocks_fetched('pgqueue.waiting_session'::regclass);
    read       bigint;
    moment     timestamptz;
    waiting    record;
    free       pgqueue.session;
    next       timestamptz;
begin
    perform pgqueue._check_receive(source, 1, accept_session.lock_duration);
    if max_sessions is null or max_sessions < 1 then
        perform pgqueue._refuse_argument('max_sessions', 'a positive whole number', max_sessions::text);
    end if;
    perform pgqueue._use(source);
    if accept_session.session_id is not null then
        if length(accept_session.session_id) not between 1 and 128 then
            perform pgqueue._refuse_argument(
                'session_id', 'a text of 1 to 128 characters', format('one of %s', length(accept_session.session_id)));
        end if;
        free := pgqueue._free_session(source.id, accept_session.session_id);
        if free.queue_id is null then
            perform pgqueue._refuse_held_session(source, accept_session.session_id);
        end if;
        return query select * from pgqueue._lock_session(free, pgqueue.clock() + lasts, holder);
        return;
    end if;
    if source.paused_at is not null then
        return;
    end if;
    perform pgqueue._take_turn_when_due(source.id);
    loop
        moment := pgqueue.clock();
        select ctid as place, session_id as id into waiting
          from pgqueue.waiting_session
         where queue_id = source.id and available_at between pgqueue._due_from(source.id, 'SESSION') and moment
         order by available_at
         limit 1
           for no key update skip locked;
        if pg_stat_get_xact_blocks_fetched('pgqueue.waiting_session'::regclass) > fetched + 32 then
            perform pgqueue._pass_due_times(source.id, 'SESSION');
            fetched := pg_stat_get_xact_blocks_fetched('pgqueue.waiting_session'::regclass);
        end if;
        if waiting.id is null then
            exit when has_turned or accepted > 0 or not pgqueue._take_turn(source);
            has_turned := true;
            continue;
        end if;
        free := pgqueue._free_session(source.id, waiting.id);
        read := pg_stat_get_xact_blocks_fetched('pgqueue.message'::regclass);
        next := pgqueue._next_delivery(free);
        read := pg_stat_get_xact_blocks_fetched('pgqueue.message'::regclass) - read;
        if next <= moment then
            update pgqueue.waiting_session
               set available_at = moment + lasts, changed_by = pg_current_xact_id()
             where ctid = waiting.place;
            return query select * from pgqueue._lock_session(free, moment + lasts, holder);
            if read > 32 then
                perform pgqueue._move_session_cursor(free, reads_much => true);
            end if;
            accepted := accepted + 1;
            exit when accepted = max_sessions;
            fetched := pg_stat_get_xact_blocks_fetched('pgqueue.waiting_session'::regclass);
            continue;
        elsif free.queue_id is null then
            -- held, or kept by a transaction: perhaps that of its release, so the end of its lock does not count
            next := moment + interval '1 second';
        elsif next is null then
            perform pgqueue._forget_session(free);
            next := moment + interval '1 second';            -- a row that is still there is held by a sender
        end if;
        update pgqueue.waiting_session set available_at = next, changed_by = pg_current_xact_id() where ctid = waiting.place;
    end loop;
end
$$;
