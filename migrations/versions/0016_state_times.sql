-- When the state of a session was set. States that were set earlier have no time.
alter table pgqueue.session add column state_set_at timestamptz;
