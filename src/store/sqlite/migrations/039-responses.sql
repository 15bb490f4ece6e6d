-- Responses that callers go on from, sealed with what was asked for them.
create table responses (
  sequence integer primary key autoincrement,
  id text not null unique,
  workspace_id text not null,
  key_hash text not null,
  status text not null,
  created_at text not null,
  size_bytes integer not null check (size_bytes > 0),
  sealed text not null
) strict;

create index responses_of_workspace on responses (workspace_id, size_bytes);
create index responses_of_time on responses (created_at);

-- Where the items are that callers name by their ids alone: of several, in the last.
create table response_items (
  key_hash text not null,
  item_id text not null,
  response_id text not null references responses (id) on delete cascade,
  primary key (key_hash, item_id)
) strict, without rowid;

create index items_of_response on response_items (response_id);
