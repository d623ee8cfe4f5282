-- The fencing token of a consumer: each session that attaches draws a larger one, and only the last one drawn may settle
-- claims. 0 is that of consumers whose last session is from before this revision, and of none that attaches from now on.
alter table pgqueue.consumer add column epoch bigint not null default 0;

-- Every settlement names its claim.
alter table pgqueue.consumer drop column current_claim;
