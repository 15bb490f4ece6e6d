-- The secret of a key that was rotated, and the one before it while both are valid. A key that was
-- never rotated has none of these: its hash is that of its secret.
alter table keys add column secret_hash text;
alter table keys add column previous_secret_hash text;
alter table keys add column previous_secret_until text;
