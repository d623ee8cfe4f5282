-- A table without a primary key, whose rows may be equal: a publication of all tables would have refused its updates and deletes.
alter table pgqueue.waiting_session replica identity full;
