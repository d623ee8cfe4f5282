select count(*) from pgmq.send_batch('bench', array_fill(:body::jsonb, array[10]));
select coalesce(array_agg(msg_id), '{}') as numbers from pgmq.read('bench', 3600, 10) \gset
select count(*) from pgmq.delete('bench', :numbers::bigint[]);
