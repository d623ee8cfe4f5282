-- A sender of a scheduled message locks nothing of its topic, as any other, and a sweep records how far it has come in what belongs to topics.
lock table pgqueue.topic, pgqueue.queue in access exclusive mode;        -- before the tables that refer to them, as verbs lock them
alter table pgqueue.scheduled_on_topic drop constraint scheduled_on_a_topic;
alter table pgqueue.sweep_progress drop constraint sweep_progress_of_a_queue;
