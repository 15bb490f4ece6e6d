-- Lists of calls by the id that their caller chose, and by session. An index costs each call that is
-- in it, so most calls are in none: a list by key reads back from the newest.
create index generations_by_request on generations (request_id) where request_id <> id;
create index generations_by_session on generations (session_id) where session_id is not null;

-- Calls that were refused before any provider was asked: the newest of them.
create table refusals (
  sequence integer primary key autoincrement,
  id text not null,
  created_at text not null,
  path text not null,
  status integer not null,
  error_type text not null,
  message text not null,
  key text,
  key_hash text,
  workspace_id text,
  model text
) strict;
create index refusals_by_id on refusals (id);
