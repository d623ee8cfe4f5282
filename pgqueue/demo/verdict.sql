-- The verdict on a run: what must hold, the value that is expected, the one that is found, and whether more is as good.
with flight as materialized (
    select flight.*, count(flight_id) as postings
      from pgqueue_demo.flight
      left join pgqueue_demo.posting on flight_id = flight.id
     group by flight.id
), reckoned as materialized (                             -- the expected ledger, in one plain statement over the input
    select origin as airport, carrier, count(*) as flights, count(*) filter (where delay is null) as cancelled,
           count(*) filter (where delay > 0) as late, coalesce(sum(delay) filter (where delay > 0), 0) as minutes
      from pgqueue_demo.flight
     group by origin, carrier
), ledger as materialized (
    select airport, carrier, flights, cancelled, late, minutes from pgqueue_demo.ledger
), dead as materialized (
    select message_id, dead_letter_reason, delivery_count from pgqueue.dead_letters where queue = %(queue)s
), killed as materialized (
    select kill.transaction_id, count(posting) as left_behind
      from pgqueue_demo.kill
      left join pgqueue_demo.posting on posting.xmin = (transaction_id::text::bigint & 4294967295)::text::xid
     group by kill.transaction_id
)
select checks.name, expected::bigint, found::bigint, at_least
  from pgqueue.queue_counts(%(queue)s) as counted, lateral (values
    ('flights entered in the books, each with its message', %(flights)s, (select count(*) from flight), false),
    ('flights posted exactly once', %(flights)s, (select count(*) from flight where postings = 1), false),
    ('postings in all', %(flights)s, (select count(*) from pgqueue_demo.posting), false),
    ('lines of the ledger that equal the reckoning',
     (select count(*) from reckoned), (select count(*) from (table reckoned intersect table ledger) as equal), false),
    ('lines of the ledger in all', (select count(*) from reckoned), (select count(*) from ledger), false),
    ('minutes of delay in the ledger',
     (select sum(minutes) from reckoned), (select coalesce(sum(minutes), 0) from ledger), false),
    ('poison dead-lettered after ' || %(deliveries)s || ' deliveries (MaxDeliveryCountExceeded)', %(hopeless)s,
     (select count(*)
        from dead
       where starts_with(message_id, 'hopeless-') and dead_letter_reason = 'MaxDeliveryCountExceeded'
         and delivery_count = %(deliveries)s), false),
    ('poison dead-lettered on demand (UnknownAirport)', 1,
     (select count(*) from dead where message_id = 'refused' and dead_letter_reason = 'UnknownAirport'), false),
    ('dead letters in all', %(hopeless)s + 1, (select count(*) from dead), false),
    ('messages left in the queue', 0, ready + locked + scheduled, false),
    -- that disturbances happened: without them, the other checks would prove little
    ('worker processes killed in mid-transaction', least(%(kills)s, 1), (select count(*) from killed), true),
    ('killed transactions of which nothing is left',
     (select count(*) from killed), (select count(*) from killed where left_behind = 0), false),
    ('flights delivered again', least(%(kills)s, 1),
     (select count(*) from pgqueue_demo.posting where delivery_count > 1), true),
    ('transactions retried on the same lock', 1, (select count(*) from pgqueue_demo.retry), true)
  ) as checks (name, expected, found, at_least)
