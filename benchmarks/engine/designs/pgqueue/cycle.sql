select count(*) from pgqueue.send_batch('bench', array_fill(:body::jsonb, array[10]));
select coalesce(array_agg(sequence_number), '{}') as numbers, coalesce(array_agg(lock_token), '{}') as tokens from pgqueue.receive('bench', 10) \gset
select count(*) from pgqueue.complete_batch('bench', :numbers::bigint[], :tokens::uuid[]);
