-- Names are those on the wire. Money is in nano-dollars, times are ISO 8601 in UTC, days are
-- counted from 1970-01-01.

create table meta (
  name text primary key,
  value text not null
) strict, without rowid;

create table workspaces (
  id text primary key,
  name text not null,
  slug text not null unique,
  is_default integer not null,
  created_by text not null,
  created_at text not null,
  updated_at text
) strict;

create table keys (
  hash text primary key,
  name text not null,
  label text not null,
  kind text not null check (kind in ('management', 'inference')),
  workspace_id text not null references workspaces (id),
  creator_user_id text,
  external_user text,
  external_api_key_hash text,
  disabled integer not null,
  "limit" integer,
  limit_reset text,
  include_byok_in_limit integer not null,
  expires_at text,
  created_at text not null,
  updated_at text
) strict;

create table generations (
  id text primary key,
  request_id text not null,
  created_at text not null,
  workspace_id text not null,
  key_hash text,
  user_id text not null,
  api_type text not null,
  model text not null,
  provider_name text,
  provider_responses text not null,
  upstream_id text,
  streamed integer not null,
  cancelled integer not null,
  finish_reason text,
  native_finish_reason text,
  latency real,
  generation_time real,
  native_tokens_prompt integer not null,
  native_tokens_completion integer not null,
  native_tokens_reasoning integer not null,
  native_tokens_cached integer not null,
  native_tokens_completion_images integer not null,
  settled_at text not null,
  total_cost integer,
  upstream_inference_cost integer,
  usageSource text not null,
  is_byok integer not null,
  service_tier text,
  session_id text,
  external_user text,
  http_referer text,
  title text,
  user_agent text,
  error_type text
) strict;

-- The sum of one key's generations that settled on one day.
create table spend (
  key_hash text not null,
  day integer not null,
  byok integer not null,
  nanos integer not null,
  primary key (key_hash, day, byok)
) strict, without rowid;
