-- Checks that `adding` messages, whose numbers were drawn after `number`, fit into a queue of bounded length. All
-- messages count except dead letters.
--
-- Counting takes time in proportion to the bound. So a session remembers in a setting how many messages there were at
-- which number, and counts again only near the bound; with a bound of more than a thousand at most every 2 microseconds
-- for each message allowed. So a queue may exceed its bound by what other transactions send meanwhile. Anybody can set
-- a setting, so a note counts only with its proof; see pgqueue._length_proof. An old note that is set again is worth no
-- more than the count of another session.
-- Raises  PQ008 queue full.
create or replace function pgqueue._check_queue_length(target pgqueue.queue, adding bigint, number bigint)
returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    memory constant text := 'pgqueue.length_' || target.id;
    noted  text[]        := string_to_array(current_setting(memory, true), ' ');       -- the note and its proof
    known  bigint[];                                                    -- count, at which number, when; sent since
    moment bigint        := extract(epoch from pgqueue.clock()) * 1000000;
begin
    if adding = 0 then
        return;
    end if;
    if noted[2] = pgqueue._length_proof(target, noted[1]) then
        known := noted[1];
    end if;
    if known is null or number < known[2] or known[1] + number - known[2] + adding > target.max_queue_length then
        if known is null or target.max_queue_length <= 1000
           or moment not between known[3] and known[3] + 2 * target.max_queue_length then
            select array[count(*), number, moment, 0] into known
              from (select                                    -- of each lane, as pgqueue._lane_messages does, but by indexes only
                      from (select lane, least(cursor, (select min(above) from unnest(awaited_above) as above)) as reached
                              from pgqueue.progress
                             where progress.queue_id = target.id) as known
                     cross join lateral (
                           select
                             from pgqueue.message
                            where queue_id = target.id and lane = known.lane and position > reached
                            union all
                           select
                             from pgqueue.watch
                            where queue_id = target.id and lane = known.lane and position <= reached
                              and exists (
                                  select
                                    from pgqueue.message
                                   where message.queue_id = target.id and message.lane = watch.lane
                                     and message.position = watch.position)) as present
                     union all
                    select from pgqueue.message where queue_id = target.id and lane between 800 and 2000
                     union all
                    select from pgqueue._scheduled_messages_of(target.id)
                     limit target.max_queue_length) as counted;
        end if;
        if known[1] + known[4] + adding > target.max_queue_length then
            perform pgqueue._refuse(
                'PQ008', format('queue %I is full: it holds %s of %s messages',
                                target.name, known[1] + known[4], target.max_queue_length),
                'Send again when some messages have been settled, or raise max_queue_length with pgqueue.alter_queue.');
        end if;
    end if;
    known[4] := known[4] + adding;
    perform set_config(memory, concat_ws(' ', known, pgqueue._length_proof(target, known::text)), false);
end
$$;
