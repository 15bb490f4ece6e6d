-- The management key that a session of the console was begun with; null for a member's.
alter table sign_ins add column key_hash text;
