-- Checks that this epoch is that of the session that attached to a consumer last. This is the fence against all earlier
-- sessions, however late their calls come.
-- Raises  PQ007 invalid argument, PQ010 consumer fenced.
create or replace function pgqueue._check_epoch(known pgqueue.consumer, epoch bigint)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if epoch is null then
        perform pgqueue._refuse_argument(
            'epoch', 'what pgqueue.attach_consumer has returned, and pgqueue.consumers shows; a pgqueue older than this schema names none',
            'null');
    end if;
    if epoch <> known.epoch then
        raise exception using
            errcode = 'PQ010',
            message = format('epoch %s of consumer %s is not the current one, %s: another session works for it now',
                             epoch, quote_literal(known.name), known.epoch),
            hint    = 'Its claims are settled there. Roll back; start the query again where the other one is not running.';
    end if;
end
$$;
