select pgqueue.create_queue('bench', lock_duration => '1 hour');
