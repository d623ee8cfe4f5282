-- Until when somebody waits for messages of a queue and wants to be told: senders read the row anyway.
alter table pgqueue.queue add column awaited_until timestamptz;
