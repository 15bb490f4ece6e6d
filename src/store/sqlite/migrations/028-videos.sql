-- Jobs that make videos at providers. Those that have not ended are asked about.
create table videos (
  id text primary key,
  generation_id text not null unique,
  workspace_id text not null,
  key_hash text,
  user_id text not null,
  created_at text not null,
  model text not null,
  provider text not null,
  byok_id text,
  protocol text not null,
  upstream_model text not null,
  upstream_id text not null,
  status text not null,
  error text,
  outputs text not null,
  own integer,
  byok integer,
  cost integer,
  is_byok integer not null,
  cancel_requested_at text,
  ended_at text,
  details text not null
) strict;
create index videos_open on videos (created_at) where ended_at is null;
create index videos_by_workspace on videos (workspace_id, created_at);
