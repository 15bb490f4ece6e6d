-- Where the calls of workspaces are told. The config is sealed, and null after the destination was
-- deleted.
create table destinations (
  id text primary key,
  workspace_id text not null references workspaces (id),
  type text not null,
  name text not null,
  sealed text,
  enabled integer not null,
  paused_at text,
  api_key_hashes text,
  regions text not null,
  broadcast_generation_cost integer not null,
  broadcast_generation_identity integer not null,
  broadcast_generation_request_context integer not null,
  filter_rules text,
  privacy_mode integer not null,
  sampling_rate real not null,
  created_at text not null,
  updated_at text not null,
  deleted_at text
) strict;

-- Which message of the outbox waits for which destination. A message is deleted with the last row
-- that refers to it, here or among the failed ones.
create table deliveries (
  destination_id text not null,
  sequence integer not null,
  bytes integer not null,
  primary key (destination_id, sequence)
) strict, without rowid;
create index deliveries_by_sequence on deliveries (sequence);

-- Messages that a destination has refused, until they are sent again or dropped.
create table failed_deliveries (
  destination_id text not null,
  sequence integer not null,
  bytes integer not null,
  reason text not null,
  status integer,
  failed_at text not null,
  primary key (destination_id, sequence)
) strict, without rowid;
create index failed_deliveries_by_sequence on failed_deliveries (sequence);

-- What became of the messages that no longer wait.
create table delivery_counts (
  destination_id text primary key,
  delivered integer not null default 0,
  skipped integer not null default 0,
  dropped integer not null default 0,
  last_success_at text,
  last_error_at text,
  last_error text
) strict;
