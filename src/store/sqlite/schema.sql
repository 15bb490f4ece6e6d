-- What all migrations lead to: a new database begins here. `bun run schema` writes it.

CREATE TABLE meta (
  name text primary key,
  value text not null
) strict, without rowid;

CREATE TABLE workspaces (
  id text primary key,
  name text not null,
  slug text not null unique,
  is_default integer not null,
  created_by text not null,
  created_at text not null,
  updated_at text
, description text, default_text_model text, default_image_model text, default_provider_sort text, include_byok_in_budgets integer not null default 0, is_observability_io_logging_enabled integer not null default 0, is_observability_broadcast_enabled integer not null default 0, is_data_discount_logging_enabled integer not null default 0, io_logging_sampling_rate real not null default 1, io_logging_api_key_ids text, disabled_server_tools text, deleted_at text) strict;

CREATE TABLE keys (
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
, isUnscoped integer not null default 1, secret_hash text, previous_secret_hash text, previous_secret_until text) strict;

CREATE TABLE generations (
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
, preset_id text, contentFilters text not null default '[]', data_region text not null default 'global', router text, steps text not null default '[]', response_cache_source_id text, batch_id text) strict;

CREATE TABLE presets (
  id text primary key,
  workspace_id text not null references workspaces (id),
  slug text not null,
  name text not null,
  description text,
  status text not null check (status in ('active', 'disabled', 'archived')),
  status_updated_at text,
  creator_user_id text,
  designated_version_id text not null,
  created_at text not null,
  updated_at text not null,
  unique (workspace_id, slug)
) strict;

CREATE TABLE preset_versions (
  id text primary key,
  preset_id text not null references presets (id),
  version integer not null,
  creator_id text not null,
  system_prompt text,
  config text not null,
  created_at text not null,
  updated_at text not null,
  unique (preset_id, version)
) strict;

CREATE TABLE byok (
  id text primary key,
  workspace_id text not null references workspaces (id),
  provider text not null,
  name text,
  label text not null,
  sealed text,
  disabled integer not null,
  is_fallback integer not null,
  is_byok_only integer not null,
  is_required integer not null,
  declared_zdr integer,
  allowed_models text,
  allowed_api_key_hashes text,
  allowed_user_ids text,
  sort_order integer not null,
  created_at text not null,
  deleted_at text
) strict;

CREATE TABLE audit (
  sequence integer primary key,
  id text not null unique,
  created_at text not null,
  actor text not null,
  user_id text not null,
  key_hash text,
  workspace_id text,
  action text not null,
  resource_id text not null,
  before text,
  after text
) strict;

CREATE INDEX audit_of_workspace on audit (workspace_id);

CREATE INDEX audit_of_resource on audit (resource_id);

CREATE INDEX audit_of_time on audit (created_at);

CREATE TRIGGER audit_is_not_changed before update on audit begin
  select raise(abort, 'what was changed stays on record');
end;

CREATE TRIGGER audit_is_not_removed before delete on audit begin
  select raise(abort, 'what was changed stays on record');
end;

CREATE TABLE members (
  id text primary key,
  email text not null,
  first_name text,
  last_name text,
  role text not null check (role in ('org:admin', 'org:member')),
  active integer not null,
  created_at text not null,
  updated_at text
) strict;

CREATE UNIQUE INDEX members_email on members (lower(email)) where active = 1;

CREATE TABLE workspace_members (
  id text primary key,
  workspace_id text not null references workspaces (id),
  user_id text not null references members (id),
  role text not null check (role in ('admin', 'member')),
  created_at text not null,
  source text not null check (source in ('manual', 'scim')),
  unique (workspace_id, user_id)
) strict;

CREATE TABLE budgets (
  id text primary key,
  workspace_id text not null references workspaces (id),
  "interval" text not null check ("interval" in ('lifetime', 'monthly', 'weekly', 'daily')),
  limit_usd integer not null,
  created_at text not null,
  updated_at text not null, soft integer,
  unique (workspace_id, "interval")
) strict;

CREATE TABLE guardrails (
  id text primary key,
  workspace_id text not null references workspaces (id),
  name text not null,
  description text,
  allowed_data_regions text,
  allowed_models text,
  allowed_providers text,
  ignored_models text,
  ignored_providers text,
  content_filter_builtins text,
  content_filters text,
  filterOutput integer not null,
  enable_free_model_publication integer,
  enable_free_model_training integer,
  enable_paid_model_training integer,
  enforce_zdr integer,
  enforce_zdr_anthropic integer,
  enforce_zdr_google integer,
  enforce_zdr_openai integer,
  enforce_zdr_other integer,
  enforce_zdr_xai integer,
  limit_usd integer,
  reset_interval text,
  include_byok_in_budgets integer not null,
  revision integer not null,
  created_at text not null,
  updated_at text
, mcp text, requests_per_minute integer, tokens_per_minute integer, concurrent_requests integer, budgets text) strict;

CREATE TABLE guardrail_keys (
  id text primary key,
  guardrail_id text not null references guardrails (id) on delete cascade,
  key_hash text not null unique references keys (hash) on delete cascade,
  assigned_by text,
  created_at text not null
) strict;

CREATE TABLE guardrail_members (
  id text primary key,
  guardrail_id text not null references guardrails (id) on delete cascade,
  user_id text not null unique,
  assigned_by text,
  created_at text not null
) strict;

CREATE INDEX guardrail_keys_by_guardrail on guardrail_keys (guardrail_id);

CREATE INDEX guardrail_members_by_guardrail on guardrail_members (guardrail_id);

CREATE TABLE scim_tokens (
  id text primary key,
  name text not null,
  label text not null,
  hash text not null unique,
  created_by text not null,
  created_at text not null
) strict;

CREATE TABLE scim_users (
  id text primary key,
  user_id text not null unique references members (id),
  name_key text not null unique,
  external_id text,
  resource text not null,
  version integer not null,
  created_at text not null,
  updated_at text not null
) strict;

CREATE INDEX scim_users_external_id on scim_users (external_id);

CREATE TABLE scim_groups (
  id text primary key,
  display_name text not null,
  name_key text not null,
  external_id text,
  version integer not null,
  created_at text not null,
  updated_at text not null
) strict;

CREATE INDEX scim_groups_name_key on scim_groups (name_key);

CREATE INDEX scim_groups_external_id on scim_groups (external_id);

CREATE TABLE scim_group_members (
  group_id text not null references scim_groups (id) on delete cascade,
  scim_user_id text not null references scim_users (id) on delete cascade,
  primary key (group_id, scim_user_id)
) strict, without rowid;

CREATE INDEX scim_group_members_user on scim_group_members (scim_user_id);

CREATE TABLE scim_group_mappings (
  id text primary key,
  scim_group_id text not null references scim_groups (id) on delete cascade,
  workspace_id text not null references workspaces (id),
  role text not null check (role in ('admin', 'member')),
  created_at text not null,
  updated_at text not null,
  unique (scim_group_id, workspace_id)
) strict;

CREATE TABLE scim_sync_jobs (
  id text primary key,
  status text not null check (status in ('queued', 'running', 'succeeded', 'failed')),
  synced_groups integer,
  deleted_groups integer,
  error_message text,
  created_at text not null,
  started_at text,
  finished_at text
) strict;

CREATE TABLE ledger (
  seq integer primary key,
  id text not null,
  settled_at text not null,
  key_hash text not null,
  user_id text not null,
  workspace_id text not null,
  byok integer not null,
  nanos integer not null,
  source text not null check (source in ('exact', 'estimated', 'none', 'opening')),
  hash text
, step integer not null default 1, several integer not null default 0, again integer not null default 0) strict;

CREATE TABLE spend (
  key_hash text not null,
  user_id text not null,
  workspace_id text not null,
  day integer not null,
  byok integer not null,
  nanos integer not null,
  primary key (key_hash, day, byok)
) strict, without rowid;

CREATE TABLE credits (
  sequence integer primary key,
  id text not null unique,
  created_at text not null,
  amount integer not null,
  note text,
  user_id text not null
) strict;

CREATE TRIGGER credits_are_not_changed before update on credits begin
  select raise(abort, 'what was paid in stays on record');
end;

CREATE TRIGGER credits_are_not_removed before delete on credits begin
  select raise(abort, 'what was paid in stays on record');
end;

CREATE UNIQUE INDEX ledger_of_steps on ledger (id, step) where several = 1;

CREATE TABLE outbox (
  sequence integer primary key autoincrement,
  topic text not null,
  generation_id text not null,
  payload text not null,
  created_at text not null
, calls integer not null default 1, segment integer, start integer, length integer, first integer, sizes text) strict;

CREATE TABLE seals (
  noun text not null,
  id text not null,
  seal text not null,
  primary key (noun, id)
) strict, without rowid;

CREATE TABLE seal_log (
  n integer primary key,
  sum text not null,
  seal text not null,
  opening text
) strict;

CREATE INDEX seal_openings on seal_log (n) where opening is not null;

CREATE INDEX generations_by_request on generations (request_id) where request_id <> id;

CREATE INDEX generations_by_session on generations (session_id) where session_id is not null;

CREATE TABLE refusals (
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
, left_out integer not null default 0, left_out_until text) strict;

CREATE INDEX refusals_by_id on refusals (id);

CREATE TABLE rollup_cursor (
  id integer primary key check (id = 1),
  last_row integer not null
) strict;

CREATE TABLE apps (
  id integer primary key,
  identity text not null unique,
  name text not null,
  slug text not null unique
) strict;

CREATE TABLE usage_groups (
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

CREATE TABLE usage_hours (
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

CREATE TABLE usage_days (
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

CREATE TABLE usage_endpoint_days (
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

CREATE TABLE usage_rows (
  start integer primary key,
  first_row integer not null,
  last_row integer not null
) strict;

CREATE TABLE usage_sessions (
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

CREATE TABLE transcripts (
  sequence integer primary key autoincrement,
  generation_id text not null unique,
  workspace_id text not null,
  key_hash text,
  created_at text not null,
  size_bytes integer not null check (size_bytes > 0),
  sealed text not null
) strict;

CREATE INDEX transcripts_of_workspace on transcripts (workspace_id);

CREATE INDEX transcripts_of_time on transcripts (created_at);

CREATE TABLE transcript_use (bytes integer not null) strict;

CREATE TRIGGER transcript_is_added after insert on transcripts begin
  update transcript_use set bytes = bytes + new.size_bytes;
end;

CREATE TRIGGER transcript_is_removed after delete on transcripts begin
  update transcript_use set bytes = bytes - old.size_bytes;
end;

CREATE TABLE evicted_days (
  day text primary key,
  calls integer not null,
  -- What the ledger has charged for them.
  charged integer not null
, corrections integer not null default 0) strict, without rowid;

CREATE TABLE evictions (
  kind text not null,
  reason text not null,
  rows integer not null,
  last_at text not null,
  primary key (kind, reason)
) strict, without rowid;

CREATE TABLE auth_codes (
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

CREATE INDEX auth_codes_of_user on auth_codes (user_id);

CREATE TABLE sign_ins (
  hash text primary key,
  kind text not null check (kind in ('link', 'session')),
  user_id text not null,
  created_at text not null,
  expires_at text not null
, key_hash text, issuer text, subject text, sid text) strict;

CREATE TABLE idempotency (
  name text primary key,
  fingerprint text not null,
  created_at text not null,
  status integer,
  sealed text
) strict;

CREATE INDEX idempotency_of_time on idempotency (created_at);

CREATE TABLE destinations (
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

CREATE TABLE deliveries (
  destination_id text not null,
  sequence integer not null,
  bytes integer not null, calls integer not null default 1,
  primary key (destination_id, sequence)
) strict, without rowid;

CREATE TABLE failed_deliveries (
  destination_id text not null,
  sequence integer not null,
  bytes integer not null,
  reason text not null,
  status integer,
  failed_at text not null,
  primary key (destination_id, sequence)
) strict, without rowid;

CREATE INDEX failed_deliveries_by_sequence on failed_deliveries (sequence);

CREATE TABLE delivery_counts (
  destination_id text primary key,
  delivered integer not null default 0,
  skipped integer not null default 0,
  dropped integer not null default 0,
  last_success_at text,
  last_error_at text,
  last_error text
) strict;

CREATE TABLE containers (
  id text primary key,
  workspace_id text not null references workspaces (id),
  name text not null,
  created_at text not null,
  last_used_at text not null,
  ended_at text,
  unique (workspace_id, name)
) strict;

CREATE TABLE container_files (
  container_id text not null references containers (id) on delete cascade,
  path text not null,
  size_bytes integer not null check (size_bytes >= 0),
  mode integer not null,
  blob text not null unique,
  promoted_id text,
  created_at text not null, sha256 text,
  primary key (container_id, path)
) strict;

CREATE TABLE batches (
  id text primary key,
  workspace_id text not null references workspaces (id),
  key_hash text not null,
  user_id text not null,
  endpoint text not null,
  input_file_id text not null,
  metadata text,
  status text not null,
  ends_as text,
  errors text,
  total integer not null,
  completed integer not null,
  failed integer not null,
  output_file_id text,
  error_file_id text,
  created_at text not null,
  expires_at text not null,
  in_progress_at text,
  finalizing_at text,
  cancelling_at text,
  ended_at text
, output_expires_after integer) strict;

CREATE INDEX batches_of_workspaces on batches (workspace_id, id);

CREATE INDEX batches_unfinished on batches (id) where ended_at is null;

CREATE TABLE batch_results (
  batch_id text not null references batches (id) on delete cascade,
  line integer not null,
  is_error integer not null,
  sealed text not null,
  primary key (batch_id, line)
) strict, without rowid;

CREATE TABLE videos (
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
, callback_url text, callback text, callback_at text, callback_attempts integer not null default 0, callback_error text, credential text) strict;

CREATE INDEX videos_open on videos (created_at) where ended_at is null;

CREATE INDEX videos_by_workspace on videos (workspace_id, created_at);

CREATE INDEX videos_to_tell on videos (callback_at) where callback_at is not null;

CREATE VIEW delivery_receivers as
with recursive receivers (destination_id) as (
  select min(destination_id) from deliveries
  union all
  select (select min(d.destination_id) from deliveries as d
    where d.destination_id > receivers.destination_id)
  from receivers where destination_id is not null
)
select destination_id from receivers where destination_id is not null;

CREATE TABLE record_seals (
  n integer primary key,
  first_row integer not null,
  last_row integer not null,
  columns integer not null,
  seal text not null
) strict;

CREATE UNIQUE INDEX ledger_of_calls on ledger (id, step, again);

CREATE TRIGGER ledger_charges_once before insert on ledger when new.again <> 0
begin
  select raise(abort, 'a call is charged once for each of its steps');
end;

CREATE INDEX outbox_by_segment on outbox (segment, length) where segment is not null;

CREATE TABLE files (
  id text primary key,
  workspace_id text not null references workspaces (id),
  filename text not null,
  mime_type text not null,
  size_bytes integer not null check (size_bytes >= 0),
  downloadable integer not null check (downloadable in (0, 1)),
  purpose text,
  created_at text not null,
  sha256 text,
  expires_at text
) strict;

CREATE INDEX files_by_workspace on files (workspace_id, id, size_bytes);

CREATE INDEX files_by_expiry on files (expires_at) where expires_at is not null;

CREATE TABLE responses (
  sequence integer primary key autoincrement,
  id text not null unique,
  workspace_id text not null,
  key_hash text not null,
  status text not null,
  created_at text not null,
  size_bytes integer not null check (size_bytes > 0),
  sealed text not null
) strict;

CREATE INDEX responses_of_workspace on responses (workspace_id, size_bytes);

CREATE INDEX responses_of_time on responses (created_at);

CREATE TABLE response_items (
  key_hash text not null,
  item_id text not null,
  response_id text not null references responses (id) on delete cascade,
  primary key (key_hash, item_id)
) strict, without rowid;

CREATE INDEX items_of_response on response_items (response_id);

CREATE TABLE alerts (
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

CREATE TABLE alert_notices (
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

CREATE INDEX alert_notices_waiting on alert_notices (due_at) where due_at is not null;

CREATE INDEX alert_notices_of on alert_notices (alert_id);

CREATE TABLE mcp_logins (
  label text primary key,
  sealed text not null,
  updated_at text not null
) strict;

CREATE TABLE call_spend (
  account text not null,
  day integer not null,
  byok integer not null,
  nanos integer not null,
  primary key (account, day, byok)
) strict, without rowid;

CREATE INDEX call_spend_of_day on call_spend (day);

CREATE TABLE feedback (
  generation_id text not null,
  key_hash text not null,
  user_id text not null,
  category text not null,
  comment text,
  created_at text not null,
  primary key (generation_id, key_hash, user_id, category)
) strict, without rowid;

CREATE TABLE changes (
  seq integer primary key,
  noun text not null,
  name text not null
) strict;

CREATE TRIGGER changes_are_few after insert on changes begin
  delete from changes where seq <= new.seq - 10000;
end;

CREATE TRIGGER keys_are_added after insert on keys begin
  insert into changes (noun, name) values ('keys', new.hash);
end;

CREATE TRIGGER keys_are_changed after update on keys begin
  insert into changes (noun, name) select 'keys', old.hash union select 'keys', new.hash;
end;

CREATE TRIGGER keys_are_removed after delete on keys begin
  insert into changes (noun, name) values ('keys', old.hash);
end;

CREATE TRIGGER workspaces_are_added after insert on workspaces begin
  insert into changes (noun, name) values ('workspaces', new.id);
end;

CREATE TRIGGER workspaces_are_changed after update on workspaces begin
  insert into changes (noun, name) select 'workspaces', old.id union select 'workspaces', new.id;
end;

CREATE TRIGGER workspaces_are_removed after delete on workspaces begin
  insert into changes (noun, name) values ('workspaces', old.id);
end;

CREATE TRIGGER byok_are_added after insert on byok begin
  insert into changes (noun, name) values ('byok', new.id);
end;

CREATE TRIGGER byok_are_changed after update on byok begin
  insert into changes (noun, name) select 'byok', old.id union select 'byok', new.id;
end;

CREATE TRIGGER byok_are_removed after delete on byok begin
  insert into changes (noun, name) values ('byok', old.id);
end;

CREATE TRIGGER destinations_are_added after insert on destinations begin
  insert into changes (noun, name) values ('destinations', new.id);
end;

CREATE TRIGGER destinations_are_changed after update on destinations begin
  insert into changes (noun, name) select 'destinations', old.id union select 'destinations', new.id;
end;

CREATE TRIGGER destinations_are_removed after delete on destinations begin
  insert into changes (noun, name) values ('destinations', old.id);
end;

CREATE TRIGGER alerts_are_added after insert on alerts begin
  insert into changes (noun, name) values ('alerts', new.id);
end;

CREATE TRIGGER alerts_are_changed after update on alerts begin
  insert into changes (noun, name) select 'alerts', old.id union select 'alerts', new.id;
end;

CREATE TRIGGER alerts_are_removed after delete on alerts begin
  insert into changes (noun, name) values ('alerts', old.id);
end;

CREATE TRIGGER guardrails_are_added after insert on guardrails begin
  insert into changes (noun, name) values ('guardrails', new.id);
end;

CREATE TRIGGER guardrails_are_changed after update on guardrails begin
  insert into changes (noun, name) select 'guardrails', old.id union select 'guardrails', new.id;
end;

CREATE TRIGGER guardrails_are_removed after delete on guardrails begin
  insert into changes (noun, name) values ('guardrails', old.id);
end;

CREATE TRIGGER budgets_are_added after insert on budgets begin
  insert into changes (noun, name) values ('budgets', new.workspace_id || ' ' || new."interval");
end;

CREATE TRIGGER budgets_are_changed after update on budgets begin
  insert into changes (noun, name) select 'budgets', old.workspace_id || ' ' || old."interval" union select 'budgets', new.workspace_id || ' ' || new."interval";
end;

CREATE TRIGGER budgets_are_removed after delete on budgets begin
  insert into changes (noun, name) values ('budgets', old.workspace_id || ' ' || old."interval");
end;

CREATE TRIGGER presets_are_added after insert on presets begin
  insert into changes (noun, name) values ('presets', new.workspace_id || '/' || new.slug);
end;

CREATE TRIGGER presets_are_changed after update on presets begin
  insert into changes (noun, name) select 'presets', old.workspace_id || '/' || old.slug union select 'presets', new.workspace_id || '/' || new.slug;
end;

CREATE TRIGGER presets_are_removed after delete on presets begin
  insert into changes (noun, name) values ('presets', old.workspace_id || '/' || old.slug);
end;

CREATE TRIGGER guardrail_keys_are_added after insert on guardrail_keys begin
  insert into changes (noun, name) values ('assignments', new.key_hash);
end;

CREATE TRIGGER guardrail_keys_are_changed after update on guardrail_keys begin
  insert into changes (noun, name) select 'assignments', old.key_hash union select 'assignments', new.key_hash;
end;

CREATE TRIGGER guardrail_keys_are_removed after delete on guardrail_keys begin
  insert into changes (noun, name) values ('assignments', old.key_hash);
end;

CREATE TRIGGER guardrail_members_are_added after insert on guardrail_members begin
  insert into changes (noun, name) values ('assignments', 'member ' || new.user_id);
end;

CREATE TRIGGER guardrail_members_are_changed after update on guardrail_members begin
  insert into changes (noun, name) select 'assignments', 'member ' || old.user_id union select 'assignments', 'member ' || new.user_id;
end;

CREATE TRIGGER guardrail_members_are_removed after delete on guardrail_members begin
  insert into changes (noun, name) values ('assignments', 'member ' || old.user_id);
end;

CREATE TRIGGER preset_versions_are_changed after update on preset_versions begin
  insert into changes (noun, name) values ('presets', '');
end;

CREATE TRIGGER credits_are_added after insert on credits begin
  insert into changes (noun, name) values ('credits', '');
end;

insert into transcript_use (bytes) values (0);
