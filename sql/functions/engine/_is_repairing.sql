-- Returns whether this transaction has begun to repair the sequence; no number may be drawn in it then. See
-- pgqueue._repair_sequence.
create or replace function pgqueue._is_repairing()
returns boolean
language sql stable
return coalesce(current_setting('pgqueue.repairing', true), '') <> '';
