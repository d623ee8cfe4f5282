-- Locks the rows of the next messages of sessions that the caller holds, at most so many of each, to hand them out; see
-- pgqueue.receive_from_session.
-- Returns  the ctids of the rows, session by session, in the order of each.
create or replace function pgqueue._take_from_sessions(
    source pgqueue.queue, session_ids text[], lock_tokens uuid[], max_messages integer[])
returns tid[]
language plpgsql
as $$
#variable_conflict use_column
declare
    wanted     integer := max_messages[1];
    allowed    integer;
    moment     timestamptz;
    held       record;
    known      pgqueue.session;
    has_turned boolean := false;
    places     tid[];
    unfit      tid[];
    fetched    bigint;
begin
    if cardinality(max_messages) > 1 then
        wanted := (select least(sum(most), 2147483647) from unnest(max_messages) as most);
    end if;
    allowed := wanted;
    perform pgqueue._take_turn_when_due(source.id);
    select array_agg(held.cursor) as cursors, count(*) as proven,
           array_agg(held) filter (where abs(extract(epoch from pgqueue.clock() - held.horizon_taken_at)) >= 1) as moving
      into held
      from unnest(session_ids, lock_tokens) as given (session_id, lock_token)
     cross join lateral (                                    -- see pgqueue._held_session
           select *
             from pgqueue.session
            where queue_id = source.id and session_id = given.session_id and lock_token = given.lock_token
              for key share) as held;
    if held.proven < cardinality(session_ids) then
        perform pgqueue._held_session(source, given.session_id, given.lock_token)
           from unnest(session_ids, lock_tokens) as given (session_id, lock_token);
    end if;
    if held.moving is not null then
        foreach known in array held.moving loop
            perform pgqueue._move_session_cursor(known);
        end loop;
    end if;
    if num_nonnulls(source.paused_at, source.max_receive_rate, source.max_concurrent) > 0 then
        allowed := pgqueue._allowance(source, wanted);
        if allowed = 0 then
            return '{}';
        end if;
        max_messages := array(
            select least(most, allowed) from unnest(max_messages) with ordinality as given (most, nth) order by nth);
    end if;
    loop
        moment := pgqueue.clock();
        fetched := pg_stat_get_xact_blocks_fetched('pgqueue.message'::regclass);
        places := (pgqueue._next_in_sessions(source.id, session_ids, lock_tokens, held.cursors, max_messages))[:allowed];
        if pg_stat_get_xact_blocks_fetched('pgqueue.message'::regclass) > fetched + 3 * least(wanted, 1000000) + 32 then
            perform pgqueue._move_session_cursors(source.id, session_ids);
        end if;
        if places = '{}' then
            if has_turned or not pgqueue._take_turn(source) then
                return places;
            end if;
            has_turned := true;
            continue;
        end if;
        unfit := array(select ctid from pgqueue.message where ctid = any (places) and coalesce(expires_at <= moment, false));
        if unfit <> '{}' then
            perform pgqueue._expire(source, unfit);
            continue;
        end if;
        unfit := pgqueue._exhausted(source, places);
        if unfit <> '{}' then
            perform pgqueue._move_exhausted(source, unfit);
            continue;
        end if;
        if num_nonnulls(source.max_receive_rate, source.max_concurrent) > 0 then
            perform pgqueue._hand_out(source, places, lock_tokens[1], moment);
        end if;
        return places;
    end loop;
end
$$;
