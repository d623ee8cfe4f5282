select count(*) from pgqueue.send_batch('bench', array_fill(%(body)s::jsonb, array[%(messages)s]));
