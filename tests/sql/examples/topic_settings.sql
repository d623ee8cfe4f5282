-- ANYONE
select * from pgqueue.topic_settings();
