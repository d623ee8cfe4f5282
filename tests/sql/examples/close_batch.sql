-- SEND
select pgqueue.close_batch(:'batch');
