-- Returns the detail of a refusal: a new id, by which the error of the client is found in the log of the server.
create or replace function pgqueue._tracking_detail()
returns text
language sql volatile
return concat('Tracking id ', right(gen_random_uuid()::text, 12), '.');
