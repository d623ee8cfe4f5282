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
    wanted     integer       := max_sessions;
    has_turned boolean       := false;
    fetched    bigint        := pg_stat_get_xact_blocks_fetched('pgqueue.waiting_session'::regclass);
    read       bigint;
    moment     timestamptz;
    waiting    record;
    free       tid[];
    found      record;
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
        free := pgqueue._free_sessions(source.id, array[accept_session.session_id]);
        if free = '{}' then
            perform pgqueue._refuse_held_session(source, accept_session.session_id);
        end if;
        return query
            update pgqueue.session
               set lock_token = gen_random_uuid(), locked_until = pgqueue.clock() + lasts, locked_by = holder
             where ctid = any (free)
            returning session_id, lock_token, locked_until, state, binary_state;
        return;
    end if;
    if source.paused_at is not null then
        return;
    end if;
    perform pgqueue._take_turn_when_due(source.id);
    while wanted > 0 loop
        moment := pgqueue.clock();
        select array_agg(place) as places, array_agg(session_id) as ids into waiting
          from (select ctid as place, session_id
                  from pgqueue.waiting_session
                 where queue_id = source.id and available_at between pgqueue._due_from(source.id, 'SESSION') and moment
                 order by available_at
                 limit wanted
                   for no key update skip locked) as longest;
        if pg_stat_get_xact_blocks_fetched('pgqueue.waiting_session'::regclass) > fetched + 32 + 3 * coalesce(cardinality(waiting.ids), 0) then
            perform pgqueue._pass_due_times(source.id, 'SESSION');
            fetched := pg_stat_get_xact_blocks_fetched('pgqueue.waiting_session'::regclass);
        end if;
        if waiting.ids is null then
            exit when has_turned or wanted < max_sessions or not pgqueue._take_turn(source);
            has_turned := true;
            continue;
        end if;
        free := pgqueue._free_sessions(source.id, waiting.ids);
        read := pg_stat_get_xact_blocks_fetched('pgqueue.message'::regclass);
        select coalesce(array_agg(id) filter (where next <= moment), '{}') as ready,
               array_agg(place) filter (where next <= moment) as places,
               coalesce(array_agg(id) filter (where next is null), '{}') as empty,
               array_agg(id) filter (where next > moment) as later,
               array_agg(next) filter (where next > moment) as nexts
          into found
          from (select known.ctid as place, known.session_id as id, next.available_at as next
                  from pgqueue.session as known
                  left join lateral (                    -- later than now where the first message was abandoned with a delay
                       select case when lock_token is null and locked_until > moment then locked_until
                                   else '-infinity' end as available_at
                         from pgqueue.message
                        where queue_id = known.queue_id and lane = 2000 and session_id <= known.session_id
                          and (session_id, position) > (known.session_id, known.cursor)
                        order by session_id, position    -- see pgqueue._next_in_sessions
                        limit 1) as next on true
                 where known.ctid = any (free)) as known;
        read := pg_stat_get_xact_blocks_fetched('pgqueue.message'::regclass) - read;
        if found.empty <> '{}' then
            perform pgqueue._forget_sessions(source.id, found.empty);
        end if;
        -- A session that is held, or kept by a transaction, waits for a second: perhaps that is the transaction of its release, so the
        -- end of its lock does not count. So does one that is empty whose row is still there: a sender holds it.
        update pgqueue.waiting_session
           set available_at = case when session_id = any (found.ready) then moment + lasts
                                   else coalesce(found.nexts[array_position(found.later, session_id)], moment + interval '1 second') end,
               changed_by   = pg_current_xact_id()
         where ctid = any (waiting.places);
        if found.ready <> '{}' then
            return query
                with locked as (
                    update pgqueue.session
                       set lock_token = gen_random_uuid(), locked_until = moment + lasts, locked_by = holder
                     where ctid = any (found.places)
                    returning session_id, lock_token, locked_until, state, binary_state)
                select * from locked order by array_position(waiting.ids, session_id);
            wanted := wanted - cardinality(found.ready);
            if read > 32 + cardinality(free) then
                perform pgqueue._move_session_cursors(source.id, found.ready);
            end if;
        end if;
        fetched := pg_stat_get_xact_blocks_fetched('pgqueue.waiting_session'::regclass);
    end loop;
end
$$;
