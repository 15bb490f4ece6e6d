-- Codes that apps exchange for a key, once. Only their hashes are kept.
create table auth_codes (
  hash text primary key,
  user_id text not null,
  workspace_id text not null references workspaces (id),
  -- The key that made it; null if a member did on the page of consent.
  key_hash text,
  callback_url text,
  code_challenge text,
  code_challenge_method text,
  key_label text not null,
  "limit" integer,
  limit_reset text,
  expires_at text,
  created_at text not null
) strict;

create index auth_codes_of_user on auth_codes (user_id);

-- Links that sign a member in, once, and the sessions that they begin. Only hashes are kept.
create table sign_ins (
  hash text primary key,
  kind text not null check (kind in ('link', 'session')),
  user_id text not null,
  created_at text not null,
  expires_at text not null
) strict;
