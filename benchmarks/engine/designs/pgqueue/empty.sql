truncate pgqueue.message, pgqueue.scheduled_message, pgqueue.watch;
