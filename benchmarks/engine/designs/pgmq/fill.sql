select count(*) from pgmq.send_batch('bench', array_fill(%(body)s::jsonb, array[%(messages)s]));
