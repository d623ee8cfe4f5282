-- SETTINGS
select * from pgqueue.due_times(:'nightly');
