-- Sums of calls by the hour and the day in which their costs were counted. They are made of the
-- records, so that they can be computed again. Hours, days and weeks are counted from 1970-01-01;
-- weeks begin on Mondays.

-- How far the roll-ups are: the row of the last call that is in them.
create table rollup_cursor (
  id integer primary key check (id = 1),
  last_row integer not null
) strict;

-- Apps that call, by the address or title that they send.
create table apps (
  id integer primary key,
  identity text not null unique,
  name text not null,
  slug text not null unique
) strict;

-- What the calls of one sum have in common. Empty texts and 0 stand for none.
create table usage_groups (
  id integer primary key,
  workspace_id text not null,
  key_hash text not null,
  user_id text not null,
  model text not null,
  provider_name text not null,
  endpoint_id text not null,
  app_id integer not null,
  is_byok integer not null,
  unique (workspace_id, key_hash, user_id, model, provider_name, endpoint_id, app_id, is_byok)
) strict;

create table usage_hours (
  start integer not null,
  group_id integer not null,
  calls integer not null,
  byok_calls integer not null,
  failed_calls integer not null,
  cancelled_calls integer not null,
  filtered_calls integer not null,
  prompt_tokens integer not null,
  completion_tokens integer not null,
  reasoning_tokens integer not null,
  cached_tokens integer not null,
  cost integer not null,
  byok_cost integer not null,
  upstream_cost integer not null,
  primary key (start, group_id)
) strict, without rowid;

create table usage_days (
  start integer not null,
  group_id integer not null,
  calls integer not null,
  byok_calls integer not null,
  failed_calls integer not null,
  cancelled_calls integer not null,
  filtered_calls integer not null,
  prompt_tokens integer not null,
  completion_tokens integer not null,
  reasoning_tokens integer not null,
  cached_tokens integer not null,
  cost integer not null,
  byok_cost integer not null,
  upstream_cost integer not null,
  primary key (start, group_id)
) strict, without rowid;

-- The same by endpoint, whoever called: far fewer sums.
create table usage_endpoint_days (
  start integer not null,
  group_id integer not null,
  calls integer not null,
  byok_calls integer not null,
  failed_calls integer not null,
  cancelled_calls integer not null,
  filtered_calls integer not null,
  prompt_tokens integer not null,
  completion_tokens integer not null,
  reasoning_tokens integer not null,
  cached_tokens integer not null,
  cost integer not null,
  byok_cost integer not null,
  upstream_cost integer not null,
  primary key (start, group_id)
) strict, without rowid;

-- Which rows the calls of an hour are among.
create table usage_rows (
  start integer primary key,
  first_row integer not null,
  last_row integer not null
) strict;

-- What a session did in one week with one model.
create table usage_sessions (
  week integer not null,
  app_id integer not null,
  model text not null,
  key_hash text not null,
  session_id text not null,
  turns integer not null,
  cost integer not null,
  unpriced_calls integer not null,
  primary key (week, app_id, model, key_hash, session_id)
) strict, without rowid;
