-- What workspaces want to be told of, and what they are told.
create table alerts (
  id text primary key,
  workspace_id text not null references workspaces (id),
  name text not null,
  cause text not null,
  thresholds text not null,
  "window" text,
  key_hash text,
  provider text,
  destination_id text,
  sealed text not null,
  disabled integer not null,
  created_at text not null,
  updated_at text not null
) strict;
create table alert_notices (
  id text primary key,
  alert_id text not null,
  content text not null,
  created_at text not null,
  ends_at text,
  state text not null,
  due_at text,
  attempts integer not null,
  error text
) strict;
create index alert_notices_waiting on alert_notices (due_at) where due_at is not null;
create index alert_notices_of on alert_notices (alert_id);
