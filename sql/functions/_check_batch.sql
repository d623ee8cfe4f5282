-- What send_batch proves of its messages before it stores any; opens the lanes of priorities never used before.
-- Raises  PQ004 queue disabled, PQ005 message too large, PQ007 invalid argument; they name the message by its place.
create or replace function pgqueue._check_batch(
    target pgqueue.queue, bodies jsonb[], binary_bodies bytea[], application_properties jsonb[], priorities integer[])
returns void
language plpgsql
as $$
declare
    place integer;
    size  bigint;
    wrong integer;
begin
    if target.status in ('DISABLED', 'SEND_DISABLED') then
        perform pgqueue._refuse_disabled(target);
    end if;
    select nth into place
      from unnest(bodies, binary_bodies) with ordinality as given (body, binary_body, nth)
     where (body is null) = (binary_body is null)
     limit 1;
    if found then
        perform pgqueue._refuse_argument(format('message %s', place), 'one with either a body or a binary_body', 'both or neither');
    end if;
    if priorities is not null then
        select nth, priority into place, wrong
          from unnest(priorities) with ordinality as given (priority, nth)
         where priority not between -100 and 100
         limit 1;
        if found then
            perform pgqueue._refuse_argument(format('the priority of message %s', place), 'a whole number from -100 to 100', wrong::text);
        end if;
        perform pgqueue._open_lanes(target.id, priority)
           from (select distinct priority from unnest(priorities) as priority) as used
          where not (2 * priority + 1)::smallint = any (target.fresh_lanes);
    end if;
    if target.max_message_size is not null then
        select given.nth, given.size into place, size
          from (select nth, octet_length(coalesce(binary_body, convert_to(body::text, 'UTF8')))
                          + coalesce(octet_length(properties::text), 0) as size
                  from unnest(bodies, binary_bodies, application_properties)
                       with ordinality as given (body, binary_body, properties, nth)) as given
         where given.size > target.max_message_size
         limit 1;
        if found then
            perform pgqueue._refuse_size(target, format('message %s', place), size);
        end if;
    end if;
end
$$;
