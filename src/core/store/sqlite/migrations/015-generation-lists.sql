-- Lists of calls by whose they are, and by the id that their caller saw.
create index generations_by_key on generations (key_hash);
create index generations_by_request on generations (request_id);
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
