-- Whether this transaction has begun to mend the sequence; then no number may be drawn in it. See pgqueue._repair_sequence.
create or replace function pgqueue._is_repairing()
returns boolean
language sql stable
return coalesce(current_setting('pgqueue.is_mending', true), '') <> '';
