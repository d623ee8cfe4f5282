insert into front_scan.bench (visible_at, body)
select now() + interval '1 day', %(body)s::jsonb from generate_series(1, %(messages)s);
