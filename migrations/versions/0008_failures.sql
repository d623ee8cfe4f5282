-- How many errors of each message are kept in its log; null keeps the last error only.
alter table pgqueue.queue
    add column retain_errors integer,
    add constraint retain_errors_fits check (retain_errors between 1 and 100);

-- What went wrong with messages before: a row for each that has failed with an error or was resubmitted, whichever table
-- the message is in. It goes with the message. A message in a lane of fresh messages never has one, so what sends,
-- receives and completes such messages does not come here. Whoever writes a row holds that of the message.
--
-- An error is {type, text, traceback, delivery_count, failed_at, locked_by}. `last_error` is that of the deliveries since
-- the message was sent or resubmitted; `delivery_log`, the oldest error first, survives a resubmission.
create table pgqueue.failed_message (
    queue_id         integer not null,
    sequence_number  bigint  not null,
    last_error       jsonb,
    delivery_log     jsonb,
    resubmitted_from jsonb,
    constraint failed_message_pkey primary key (queue_id, sequence_number)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
