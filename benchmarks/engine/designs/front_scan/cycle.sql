select count(*) from front_scan.send('bench', array_fill(:body::jsonb, array[10]));
select coalesce(array_agg(id), '{}') as numbers from front_scan.receive('bench', 10) \gset
select count(*) from front_scan.complete('bench', :numbers::bigint[]);
