select count(*) from front_scan.send('bench', array_fill(%(body)s::jsonb, array[%(messages)s]));
