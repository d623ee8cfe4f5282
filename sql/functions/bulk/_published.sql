-- Returns the batches that a publisher has sent to a queue, from a part and up to one where these are not null, with their
-- places: by the primary key in its order, whatever the statistics.
create or replace function pgqueue._published(queue_id integer, publisher text, from_part bigint, up_to_part bigint)
returns table (place tid, batch pgqueue.published_batch)
language sql stable
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
    select ctid, published_batch
      from pgqueue.published_batch
     where published_batch.queue_id = _published.queue_id
       and published_batch.publisher between _published.publisher and _published.publisher
       and part >= coalesce(from_part, -9223372036854775808) and part <= coalesce(up_to_part, 9223372036854775807)
     order by publisher, part
$$;
