-- The tables of a store in Postgres: those of `../sqlite/schema.sql`, column by column, and what
-- SQLite has by itself. Texts are in the order of their bytes.

-- The one row that changes of administrators lock first, so that each sees what the one before has
-- done. How many there were says whether another process has changed something.
create table gate (
  changes bigint not null,
  -- Which of these tables there are.
  version bigint not null,
  -- The oldest version of a program that may use them.
  oldest bigint not null default 2
);

insert into gate values (0, 4);

-- The servers, each of one data directory. The incarnation is that of the process.
create table nodes (
  id text collate "C" primary key,
  incarnation text collate "C" not null,
  name text collate "C" not null,
  version text collate "C" not null,
  claimed_at timestamptz not null,
  seen_at timestamptz not null,
  left_at timestamptz,
  -- Whether no other may serve beside it.
  is_alone bigint not null default 1,
  -- What it has been lent last, so that it knows when it did not hear so.
  lent text collate "C",
  -- The calls that run there: what they have cost so far is charged where it does not come back.
  running text collate "C",
  -- What stands for its config, and which tables its program makes.
  config_hash text collate "C",
  schema_version bigint
);

-- The background work of all servers: who has it, until when it is not another's, and how often that
-- one has looked for work.
create table jobs (
  name text collate "C" primary key,
  node text collate "C" not null,
  incarnation text collate "C" not null,
  until timestamptz not null
);

-- What providers have said to a server that has not the jobs, and when last.
create table sightings (
  name text collate "C" primary key,
  seen_at timestamptz not null
);

-- What nodes have taken of limits by minutes or days, all together: what a node has in hand counts as
-- taken. A crash of the database empties it.
create unlogged table counts (
  name text collate "C" primary key,
  -- The window since 1970, by the clock of the database.
  number bigint not null,
  ends_at timestamptz not null,
  -- When it was first counted, in milliseconds. Another time says that what was taken was lost.
  born bigint not null,
  taken bigint not null,
  -- When a node last found too little.
  wanted_at timestamptz
) with (fillfactor = 50);

create index counts_wanted on counts (wanted_at) where wanted_at is not null;

-- The places of calls that run at once: how many each process has, by its incarnation.
create table places (
  name text collate "C" primary key,
  holders jsonb not null,
  wanted_at timestamptz
) with (fillfactor = 50);

create index places_wanted on places (wanted_at) where wanted_at is not null;

-- The processes that serve, or may still.
create view serving_nodes as
  select incarnation from nodes
  where left_at is null and seen_at > clock_timestamp() - interval '90 seconds';

-- Takes from counters, one after the other in the order of their names, so that no two nodes wait for
-- each other. Each gets what it wants at least, and more for the next calls: nothing where there is
-- less. What a node knows counts where the counter was lost. A debt is what is taken already, or,
-- below 0, given back. The clock is read once the row is locked.
create function take_counts(asked text)
returns table (place bigint, number bigint, born bigint, taken bigint, granted bigint, nodes bigint,
  moment double precision) language plpgsql as $$
#variable_conflict use_column
declare
  one record;
  kept counts;
  free bigint;
begin
  nodes := greatest(1, (select count(*) from serving_nodes));
  for one in
    select * from jsonb_to_recordset(asked::jsonb) as a (place bigint, name text, length bigint,
      number bigint, born bigint, known bigint, debt bigint, want bigint, demand bigint,
      maximum bigint)
    order by name collate "C"
  loop
    loop
      select * into kept from counts where name = one.name for update;
      exit when found;
      insert into counts values (one.name, -1, '-infinity', 0, 0, null) on conflict do nothing;
    end loop;
    moment := extract(epoch from clock_timestamp())::double precision * 1000;
    number := floor(moment / one.length);
    if kept.number < number then
      kept.taken := case when one.number = number then one.known else 0 end;
      kept.born := floor(moment);
      kept.wanted_at := null;
    elsif one.number = number and kept.born <> one.born then
      kept.taken := greatest(kept.taken, one.known);
    end if;
    granted := 0;
    if one.number = number then
      kept.taken := greatest(0, kept.taken + one.debt);
      free := one.maximum - kept.taken;
      if one.want > 0 and free < one.want then
        kept.wanted_at := clock_timestamp();
      elsif one.want > 0 then
        granted := greatest(one.want, least(one.demand, free / nodes),
          case when kept.wanted_at is null then free / (4 * nodes) else 0 end);
      end if;
      kept.taken := kept.taken + granted;
    end if;
    update counts set number = take_counts.number,
        ends_at = to_timestamp((take_counts.number + 1) * one.length / 1000.0),
        born = kept.born, taken = kept.taken, wanted_at = kept.wanted_at
      where name = one.name;
    place := one.place;
    born := kept.born;
    taken := kept.taken;
    return next;
  end loop;
end $$;

-- Takes places, as `take_counts` does. A process says how many it has, and gets more or none: null
-- where it is not among those that serve. Those of processes that do not serve any more are free.
create function take_places(asked text, node text)
returns table (place bigint, held bigint, others bigint, nodes bigint, moment double precision)
language plpgsql as $$
#variable_conflict use_column
declare
  one record;
  kept places;
  serving text[];
  free bigint;
begin
  for one in
    select * from jsonb_to_recordset(asked::jsonb) as a (place bigint, name text, held bigint,
      want bigint, demand bigint, maximum bigint)
    order by name collate "C"
  loop
    loop
      select * into kept from places where name = one.name for update;
      exit when found;
      insert into places values (one.name, '{}', null) on conflict do nothing;
    end loop;
    -- Read once the row is locked: who has places in it was there before.
    serving := array(select incarnation from serving_nodes);
    nodes := greatest(1, cardinality(serving));
    select coalesce(jsonb_object_agg(key, value), '{}'), coalesce(sum(value::bigint), 0)
      into kept.holders, others
      from jsonb_each_text(kept.holders) where key <> node and key = any (serving);
    held := one.held;
    free := one.maximum - others - held;
    if one.want > 0 and free < one.want then
      kept.wanted_at := clock_timestamp();
    elsif one.want > 0 then
      held := held + greatest(one.want, least(one.demand, free / nodes),
        case when kept.wanted_at > clock_timestamp() - interval '2 seconds' then 0
          else free / (4 * nodes) end);
    end if;
    if held > 0 then
      kept.holders := kept.holders || jsonb_build_object(node, held);
    end if;
    if node <> all (serving) then
      held := null;
    elsif kept.holders = '{}' and kept.wanted_at is null then
      delete from places where name = one.name;
    else
      update places set holders = kept.holders, wanted_at = kept.wanted_at where name = one.name;
    end if;
    place := one.place;
    moment := extract(epoch from clock_timestamp())::double precision * 1000;
    return next;
  end loop;
end $$;

-- The last number that the rows of a table got: numbers have no gaps, and none is given twice.
create table numbers (
  name text collate "C" primary key,
  last bigint not null,
  moves bigint not null default 0
);

-- Everything that moves money counts that in this row first, and so has it locked.
insert into numbers values ('generations', 0);

-- What a window of an account has used of its limits: what was spent in it, and what nodes have on
-- lease. A meter is an account, and which way of paying counts. A sum may be larger than any amount.
create table accounts (
  meter text collate "C" not null,
  period text collate "C" not null,
  first_day bigint not null,
  used numeric not null,
  primary key (meter, period)
);

-- What a node may spend of an account without asking. Less than nothing where a call has cost more
-- than was set aside.
create table leases (
  meter text collate "C" not null,
  node text collate "C" not null,
  amount numeric not null,
  -- Since when another node has too little, and when this one has last given back what it could.
  wanted_at timestamptz,
  answered_at timestamptz,
  primary key (meter, node)
);

create index leases_of_nodes on leases (node);

-- Which rows of the ledger a node has written that it has not read among those of all.
create table charged (
  last_row bigint primary key,
  first_row bigint not null,
  node text collate "C" not null
);

create function give_number() returns trigger language plpgsql as $$
begin
  if new.sequence is null then
    insert into numbers values (tg_table_name, 1)
      on conflict (name) do update set last = numbers.last + 1 returning last into new.sequence;
  end if;
  return new;
end $$;

create function give_seq() returns trigger language plpgsql as $$
begin
  if new.source = 'opening' then
    update numbers set moves = moves + 1 where name = 'generations';
    update accounts set used = used + new.nanos where meter in (
      'own key ' || new.key_hash, 'own member ' || new.user_id,
      'own workspace ' || new.workspace_id, 'own all', 'any key ' || new.key_hash,
      'any member ' || new.user_id, 'any workspace ' || new.workspace_id, 'any all');
  end if;
  if new.seq is null then
    select coalesce(max(seq), 0) + 1 into new.seq from ledger;
  end if;
  return new;
end $$;

create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception 'what is in % stays on record', tg_table_name using errcode = 'integrity_constraint_violation';
end $$;

-- Where a text has another, from 1; 0 where it has not.
create function instr(whole text, part text) returns integer language sql immutable as
  'select strpos(whole, part)';

-- The one in the middle, or what is between the two there.
create function find_median(numbers double precision[]) returns double precision
  language sql immutable as
  'select percentile_cont(0.5) within group (order by number) from unnest(numbers) as number';

create aggregate median(double precision) (
  sfunc = array_append, stype = double precision[], initcond = '{}', finalfunc = find_median
);

-- The items of a list of JSON, each as a text: what SQLite has under this name.
create function json_each(list text) returns table (value text) language sql immutable as
  'select jsonb_array_elements_text(list::jsonb)';

-- The endpoint that answered a call. One garbled record keeps no other from being summed.
create function find_endpoint(responses text) returns text language plpgsql immutable as $$
begin
  return coalesce(responses::jsonb -> -1 ->> 'endpoint_id', '');
exception when others then
  return '';
end $$;

create table meta (
  name text collate "C" primary key,
  value text collate "C" not null
);

create table workspaces (
  id text collate "C" primary key,
  name text collate "C" not null,
  slug text collate "C" not null unique,
  is_default bigint not null,
  created_by text collate "C" not null,
  created_at text collate "C" not null,
  updated_at text collate "C",
  description text collate "C",
  default_text_model text collate "C",
  default_image_model text collate "C",
  default_provider_sort text collate "C",
  include_byok_in_budgets bigint not null default 0,
  is_observability_io_logging_enabled bigint not null default 0,
  is_observability_broadcast_enabled bigint not null default 0,
  is_data_discount_logging_enabled bigint not null default 0,
  io_logging_sampling_rate double precision not null default 1,
  io_logging_api_key_ids text collate "C",
  disabled_server_tools text collate "C",
  deleted_at text collate "C"
);

create table keys (
  rowid bigint generated always as identity unique,
  hash text collate "C" primary key,
  name text collate "C" not null,
  label text collate "C" not null,
  kind text collate "C" not null check (kind in ('management', 'inference')),
  workspace_id text collate "C" not null references workspaces (id),
  creator_user_id text collate "C",
  external_user text collate "C",
  external_api_key_hash text collate "C",
  disabled bigint not null,
  "limit" bigint,
  limit_reset text collate "C",
  include_byok_in_limit bigint not null,
  expires_at text collate "C",
  created_at text collate "C" not null,
  updated_at text collate "C",
  "isUnscoped" bigint not null default 1,
  secret_hash text collate "C",
  previous_secret_hash text collate "C",
  previous_secret_until text collate "C"
);

create table generations (
  rowid bigint not null unique,
  id text collate "C" primary key,
  request_id text collate "C" not null,
  created_at text collate "C" not null,
  workspace_id text collate "C" not null,
  key_hash text collate "C",
  user_id text collate "C" not null,
  api_type text collate "C" not null,
  model text collate "C" not null,
  provider_name text collate "C",
  provider_responses text collate "C" not null,
  upstream_id text collate "C",
  streamed bigint not null,
  cancelled bigint not null,
  finish_reason text collate "C",
  native_finish_reason text collate "C",
  latency double precision,
  generation_time double precision,
  native_tokens_prompt bigint not null,
  native_tokens_completion bigint not null,
  native_tokens_reasoning bigint not null,
  native_tokens_cached bigint not null,
  native_tokens_completion_images bigint not null,
  settled_at text collate "C" not null,
  total_cost bigint,
  upstream_inference_cost bigint,
  "usageSource" text collate "C" not null,
  is_byok bigint not null,
  service_tier text collate "C",
  session_id text collate "C",
  external_user text collate "C",
  http_referer text collate "C",
  title text collate "C",
  user_agent text collate "C",
  error_type text collate "C",
  preset_id text collate "C",
  "contentFilters" text collate "C" not null default '[]',
  data_region text collate "C" not null default 'global',
  router text collate "C",
  steps text collate "C" not null default '[]',
  response_cache_source_id text collate "C",
  batch_id text collate "C"
);

create table presets (
  id text collate "C" primary key,
  workspace_id text collate "C" not null references workspaces (id),
  slug text collate "C" not null,
  name text collate "C" not null,
  description text collate "C",
  status text collate "C" not null check (status in ('active', 'disabled', 'archived')),
  status_updated_at text collate "C",
  creator_user_id text collate "C",
  designated_version_id text collate "C" not null,
  created_at text collate "C" not null,
  updated_at text collate "C" not null,
  unique (workspace_id, slug)
);

create table preset_versions (
  id text collate "C" primary key,
  preset_id text collate "C" not null references presets (id),
  version bigint not null,
  creator_id text collate "C" not null,
  system_prompt text collate "C",
  config text collate "C" not null,
  created_at text collate "C" not null,
  updated_at text collate "C" not null,
  unique (preset_id, version)
);

create table byok (
  id text collate "C" primary key,
  workspace_id text collate "C" not null references workspaces (id),
  provider text collate "C" not null,
  name text collate "C",
  label text collate "C" not null,
  sealed text collate "C",
  disabled bigint not null,
  is_fallback bigint not null,
  is_byok_only bigint not null,
  is_required bigint not null,
  declared_zdr bigint,
  allowed_models text collate "C",
  allowed_api_key_hashes text collate "C",
  allowed_user_ids text collate "C",
  sort_order bigint not null,
  created_at text collate "C" not null,
  deleted_at text collate "C"
);

create table audit (
  sequence bigint primary key,
  id text collate "C" not null unique,
  created_at text collate "C" not null,
  actor text collate "C" not null,
  user_id text collate "C" not null,
  key_hash text collate "C",
  workspace_id text collate "C",
  action text collate "C" not null,
  resource_id text collate "C" not null,
  before text collate "C",
  after text collate "C"
);

create index audit_of_workspace on audit (workspace_id);

create index audit_of_resource on audit (resource_id);

create index audit_of_time on audit (created_at);

create table members (
  id text collate "C" primary key,
  email text collate "C" not null,
  first_name text collate "C",
  last_name text collate "C",
  role text collate "C" not null check (role in ('org:admin', 'org:member')),
  active bigint not null,
  created_at text collate "C" not null,
  updated_at text collate "C"
);

create unique index members_email on members (lower(email)) where active = 1;

create table workspace_members (
  id text collate "C" primary key,
  workspace_id text collate "C" not null references workspaces (id),
  user_id text collate "C" not null references members (id),
  role text collate "C" not null check (role in ('admin', 'member')),
  created_at text collate "C" not null,
  source text collate "C" not null check (source in ('manual', 'scim')),
  unique (workspace_id, user_id)
);

create table budgets (
  id text collate "C" primary key,
  workspace_id text collate "C" not null references workspaces (id),
  "interval" text collate "C" not null check ("interval" in ('lifetime', 'monthly', 'weekly', 'daily')),
  limit_usd bigint not null,
  created_at text collate "C" not null,
  updated_at text collate "C" not null,
  soft bigint,
  unique (workspace_id, "interval")
);

create table guardrails (
  id text collate "C" primary key,
  workspace_id text collate "C" not null references workspaces (id),
  name text collate "C" not null,
  description text collate "C",
  allowed_data_regions text collate "C",
  allowed_models text collate "C",
  allowed_providers text collate "C",
  ignored_models text collate "C",
  ignored_providers text collate "C",
  content_filter_builtins text collate "C",
  content_filters text collate "C",
  "filterOutput" bigint not null,
  enable_free_model_publication bigint,
  enable_free_model_training bigint,
  enable_paid_model_training bigint,
  enforce_zdr bigint,
  enforce_zdr_anthropic bigint,
  enforce_zdr_google bigint,
  enforce_zdr_openai bigint,
  enforce_zdr_other bigint,
  enforce_zdr_xai bigint,
  limit_usd bigint,
  reset_interval text collate "C",
  include_byok_in_budgets bigint not null,
  revision bigint not null,
  created_at text collate "C" not null,
  updated_at text collate "C",
  mcp text collate "C",
  requests_per_minute bigint,
  tokens_per_minute bigint,
  concurrent_requests bigint,
  budgets text collate "C"
);

create table guardrail_keys (
  rowid bigint generated always as identity unique,
  id text collate "C" primary key,
  guardrail_id text collate "C" not null references guardrails (id) on delete cascade,
  key_hash text collate "C" not null unique references keys (hash) on delete cascade,
  assigned_by text collate "C",
  created_at text collate "C" not null
);

create table guardrail_members (
  id text collate "C" primary key,
  guardrail_id text collate "C" not null references guardrails (id) on delete cascade,
  user_id text collate "C" not null unique,
  assigned_by text collate "C",
  created_at text collate "C" not null
);

create index guardrail_keys_by_guardrail on guardrail_keys (guardrail_id);

create index guardrail_members_by_guardrail on guardrail_members (guardrail_id);

create table scim_tokens (
  id text collate "C" primary key,
  name text collate "C" not null,
  label text collate "C" not null,
  hash text collate "C" not null unique,
  created_by text collate "C" not null,
  created_at text collate "C" not null
);

create table scim_users (
  id text collate "C" primary key,
  user_id text collate "C" not null unique references members (id),
  name_key text collate "C" not null unique,
  external_id text collate "C",
  resource text collate "C" not null,
  version bigint not null,
  created_at text collate "C" not null,
  updated_at text collate "C" not null
);

create index scim_users_external_id on scim_users (external_id);

create table scim_groups (
  id text collate "C" primary key,
  display_name text collate "C" not null,
  name_key text collate "C" not null,
  external_id text collate "C",
  version bigint not null,
  created_at text collate "C" not null,
  updated_at text collate "C" not null
);

create index scim_groups_name_key on scim_groups (name_key);

create index scim_groups_external_id on scim_groups (external_id);

create table scim_group_members (
  group_id text collate "C" not null references scim_groups (id) on delete cascade,
  scim_user_id text collate "C" not null references scim_users (id) on delete cascade,
  primary key (group_id, scim_user_id)
);

create index scim_group_members_user on scim_group_members (scim_user_id);

create table scim_group_mappings (
  id text collate "C" primary key,
  scim_group_id text collate "C" not null references scim_groups (id) on delete cascade,
  workspace_id text collate "C" not null references workspaces (id),
  role text collate "C" not null check (role in ('admin', 'member')),
  created_at text collate "C" not null,
  updated_at text collate "C" not null,
  unique (scim_group_id, workspace_id)
);

create table scim_sync_jobs (
  id text collate "C" primary key,
  status text collate "C" not null check (status in ('queued', 'running', 'succeeded', 'failed')),
  synced_groups bigint,
  deleted_groups bigint,
  error_message text collate "C",
  created_at text collate "C" not null,
  started_at text collate "C",
  finished_at text collate "C"
);

create table ledger (
  seq bigint primary key,
  id text collate "C" not null,
  settled_at text collate "C" not null,
  key_hash text collate "C" not null,
  user_id text collate "C" not null,
  workspace_id text collate "C" not null,
  byok bigint not null,
  nanos bigint not null,
  source text collate "C" not null check (source in ('exact', 'estimated', 'none', 'opening')),
  hash text collate "C",
  step bigint not null default 1,
  several bigint not null default 0,
  again bigint not null default 0 check (again = 0)
);

create table spend (
  key_hash text collate "C" not null,
  user_id text collate "C" not null,
  workspace_id text collate "C" not null,
  day bigint not null,
  byok bigint not null,
  nanos bigint not null,
  primary key (key_hash, day, byok)
);

create table credits (
  sequence bigint primary key,
  id text collate "C" not null unique,
  created_at text collate "C" not null,
  amount bigint not null,
  note text collate "C",
  user_id text collate "C" not null
);

create unique index ledger_of_steps on ledger (id, step) where several = 1;

create table outbox (
  sequence bigint primary key,
  topic text collate "C" not null,
  generation_id text collate "C" not null,
  payload text collate "C" not null,
  created_at text collate "C" not null,
  calls bigint not null default 1,
  segment bigint,
  start bigint,
  length bigint,
  first bigint,
  sizes text collate "C"
);

create table seals (
  noun text collate "C" not null,
  id text collate "C" not null,
  seal text collate "C" not null,
  primary key (noun, id)
);

create table seal_log (
  n bigint primary key,
  sum text collate "C" not null,
  seal text collate "C" not null,
  opening text collate "C"
);

create index seal_openings on seal_log (n) where opening is not null;

create index generations_by_request on generations (request_id) where request_id <> id;

create index generations_by_session on generations (session_id) where session_id is not null;

create table refusals (
  sequence bigint primary key,
  id text collate "C" not null,
  created_at text collate "C" not null,
  path text collate "C" not null,
  status bigint not null,
  error_type text collate "C" not null,
  message text collate "C" not null,
  key text collate "C",
  key_hash text collate "C",
  workspace_id text collate "C",
  model text collate "C",
  left_out bigint not null default 0,
  left_out_until text collate "C"
);

create index refusals_by_id on refusals (id);

create table rollup_cursor (
  id bigint primary key check (id = 1),
  last_row bigint not null
);

create table apps (
  id bigint primary key,
  identity text collate "C" not null unique,
  name text collate "C" not null,
  slug text collate "C" not null unique
);

create table usage_groups (
  id bigint primary key,
  workspace_id text collate "C" not null,
  key_hash text collate "C" not null,
  user_id text collate "C" not null,
  model text collate "C" not null,
  provider_name text collate "C" not null,
  endpoint_id text collate "C" not null,
  app_id bigint not null,
  is_byok bigint not null,
  unique (workspace_id, key_hash, user_id, model, provider_name, endpoint_id, app_id, is_byok)
);

create table usage_hours (
  start bigint not null,
  group_id bigint not null,
  calls bigint not null,
  byok_calls bigint not null,
  failed_calls bigint not null,
  cancelled_calls bigint not null,
  filtered_calls bigint not null,
  prompt_tokens bigint not null,
  completion_tokens bigint not null,
  reasoning_tokens bigint not null,
  cached_tokens bigint not null,
  cost bigint not null,
  byok_cost bigint not null,
  upstream_cost bigint not null,
  primary key (start, group_id)
);

create table usage_days (
  start bigint not null,
  group_id bigint not null,
  calls bigint not null,
  byok_calls bigint not null,
  failed_calls bigint not null,
  cancelled_calls bigint not null,
  filtered_calls bigint not null,
  prompt_tokens bigint not null,
  completion_tokens bigint not null,
  reasoning_tokens bigint not null,
  cached_tokens bigint not null,
  cost bigint not null,
  byok_cost bigint not null,
  upstream_cost bigint not null,
  primary key (start, group_id)
);

create table usage_endpoint_days (
  start bigint not null,
  group_id bigint not null,
  calls bigint not null,
  byok_calls bigint not null,
  failed_calls bigint not null,
  cancelled_calls bigint not null,
  filtered_calls bigint not null,
  prompt_tokens bigint not null,
  completion_tokens bigint not null,
  reasoning_tokens bigint not null,
  cached_tokens bigint not null,
  cost bigint not null,
  byok_cost bigint not null,
  upstream_cost bigint not null,
  primary key (start, group_id)
);

create table usage_rows (
  start bigint primary key,
  first_row bigint not null,
  last_row bigint not null
);

create table usage_sessions (
  week bigint not null,
  app_id bigint not null,
  model text collate "C" not null,
  key_hash text collate "C" not null,
  session_id text collate "C" not null,
  turns bigint not null,
  cost bigint not null,
  unpriced_calls bigint not null,
  primary key (week, app_id, model, key_hash, session_id)
);

create table transcripts (
  sequence bigint primary key,
  generation_id text collate "C" not null unique,
  workspace_id text collate "C" not null,
  key_hash text collate "C",
  created_at text collate "C" not null,
  size_bytes bigint not null check (size_bytes > 0),
  sealed text collate "C" not null
);

create index transcripts_of_workspace on transcripts (workspace_id);

create index transcripts_of_time on transcripts (created_at);

create table transcript_use (
  bytes bigint not null
);

create table feedback (
  generation_id text collate "C" not null,
  key_hash text collate "C" not null,
  user_id text collate "C" not null,
  category text collate "C" not null,
  comment text collate "C",
  created_at text collate "C" not null,
  primary key (generation_id, key_hash, user_id, category)
);

create table evicted_days (
  day text collate "C" primary key,
  calls bigint not null,
  charged bigint not null,
  corrections bigint not null default 0
);

create table evictions (
  kind text collate "C" not null,
  reason text collate "C" not null,
  rows bigint not null,
  last_at text collate "C" not null,
  primary key (kind, reason)
);

create table auth_codes (
  hash text collate "C" primary key,
  user_id text collate "C" not null,
  workspace_id text collate "C" not null references workspaces (id),
  key_hash text collate "C",
  callback_url text collate "C",
  code_challenge text collate "C",
  code_challenge_method text collate "C",
  key_label text collate "C" not null,
  "limit" bigint,
  limit_reset text collate "C",
  expires_at text collate "C",
  created_at text collate "C" not null
);

create index auth_codes_of_user on auth_codes (user_id);

create table sign_ins (
  hash text collate "C" primary key,
  kind text collate "C" not null check (kind in ('link', 'session')),
  user_id text collate "C" not null,
  created_at text collate "C" not null,
  expires_at text collate "C" not null,
  key_hash text collate "C",
  issuer text collate "C",
  subject text collate "C",
  sid text collate "C"
);

create table idempotency (
  name text collate "C" primary key,
  fingerprint text collate "C" not null,
  created_at text collate "C" not null,
  status bigint,
  sealed text collate "C"
);

create index idempotency_of_time on idempotency (created_at);

create table destinations (
  id text collate "C" primary key,
  workspace_id text collate "C" not null references workspaces (id),
  type text collate "C" not null,
  name text collate "C" not null,
  sealed text collate "C",
  enabled bigint not null,
  paused_at text collate "C",
  api_key_hashes text collate "C",
  regions text collate "C" not null,
  broadcast_generation_cost bigint not null,
  broadcast_generation_identity bigint not null,
  broadcast_generation_request_context bigint not null,
  filter_rules text collate "C",
  privacy_mode bigint not null,
  sampling_rate double precision not null,
  created_at text collate "C" not null,
  updated_at text collate "C" not null,
  deleted_at text collate "C"
);

create table deliveries (
  destination_id text collate "C" not null,
  sequence bigint not null,
  bytes bigint not null,
  calls bigint not null default 1,
  primary key (destination_id, sequence)
);

create table failed_deliveries (
  destination_id text collate "C" not null,
  sequence bigint not null,
  bytes bigint not null,
  reason text collate "C" not null,
  status bigint,
  failed_at text collate "C" not null,
  primary key (destination_id, sequence)
);

create index failed_deliveries_by_sequence on failed_deliveries (sequence);

create table delivery_counts (
  destination_id text collate "C" primary key,
  delivered bigint not null default 0,
  skipped bigint not null default 0,
  dropped bigint not null default 0,
  last_success_at text collate "C",
  last_error_at text collate "C",
  last_error text collate "C"
);

create table containers (
  id text collate "C" primary key,
  workspace_id text collate "C" not null references workspaces (id),
  name text collate "C" not null,
  created_at text collate "C" not null,
  last_used_at text collate "C" not null,
  ended_at text collate "C",
  unique (workspace_id, name)
);

create table container_files (
  container_id text collate "C" not null references containers (id) on delete cascade,
  path text collate "C" not null,
  size_bytes bigint not null check (size_bytes >= 0),
  mode bigint not null,
  blob text collate "C" not null unique,
  promoted_id text collate "C",
  created_at text collate "C" not null,
  sha256 text collate "C",
  primary key (container_id, path)
);

create table batches (
  id text collate "C" primary key,
  workspace_id text collate "C" not null references workspaces (id),
  key_hash text collate "C" not null,
  user_id text collate "C" not null,
  endpoint text collate "C" not null,
  input_file_id text collate "C" not null,
  metadata text collate "C",
  status text collate "C" not null,
  ends_as text collate "C",
  errors text collate "C",
  total bigint not null,
  completed bigint not null,
  failed bigint not null,
  output_file_id text collate "C",
  error_file_id text collate "C",
  created_at text collate "C" not null,
  expires_at text collate "C" not null,
  in_progress_at text collate "C",
  finalizing_at text collate "C",
  cancelling_at text collate "C",
  ended_at text collate "C",
  output_expires_after bigint
);

create index batches_of_workspaces on batches (workspace_id, id);

create index batches_unfinished on batches (id) where ended_at is null;

create table batch_results (
  batch_id text collate "C" not null references batches (id) on delete cascade,
  line bigint not null,
  is_error bigint not null,
  sealed text collate "C" not null,
  primary key (batch_id, line)
);

create table videos (
  id text collate "C" primary key,
  generation_id text collate "C" not null unique,
  workspace_id text collate "C" not null,
  key_hash text collate "C",
  user_id text collate "C" not null,
  created_at text collate "C" not null,
  model text collate "C" not null,
  provider text collate "C" not null,
  byok_id text collate "C",
  protocol text collate "C" not null,
  upstream_model text collate "C" not null,
  upstream_id text collate "C" not null,
  status text collate "C" not null,
  error text collate "C",
  outputs text collate "C" not null,
  own bigint,
  byok bigint,
  cost bigint,
  is_byok bigint not null,
  cancel_requested_at text collate "C",
  ended_at text collate "C",
  details text collate "C" not null,
  callback_url text collate "C",
  callback text collate "C",
  callback_at text collate "C",
  callback_attempts bigint not null default 0,
  callback_error text collate "C",
  credential text collate "C"
);

create index videos_open on videos (created_at) where ended_at is null;

create index videos_by_workspace on videos (workspace_id, created_at);

create index videos_to_tell on videos (callback_at) where callback_at is not null;

create table record_seals (
  n bigint primary key,
  first_row bigint not null,
  last_row bigint not null,
  columns bigint not null,
  seal text collate "C" not null
);

create unique index ledger_of_calls on ledger (id, step, again);

create index outbox_by_segment on outbox (segment, length) where segment is not null;

create table files (
  id text collate "C" primary key,
  workspace_id text collate "C" not null references workspaces (id),
  filename text collate "C" not null,
  mime_type text collate "C" not null,
  size_bytes bigint not null check (size_bytes >= 0),
  downloadable bigint not null check (downloadable in (0, 1)),
  purpose text collate "C",
  created_at text collate "C" not null,
  sha256 text collate "C",
  expires_at text collate "C"
);

create index files_by_workspace on files (workspace_id, id, size_bytes);

create index files_by_expiry on files (expires_at) where expires_at is not null;

create table responses (
  sequence bigint primary key,
  id text collate "C" not null unique,
  workspace_id text collate "C" not null,
  key_hash text collate "C" not null,
  status text collate "C" not null,
  created_at text collate "C" not null,
  size_bytes bigint not null check (size_bytes > 0),
  sealed text collate "C" not null
);

create index responses_of_workspace on responses (workspace_id, size_bytes);

create index responses_of_time on responses (created_at);

create table response_items (
  key_hash text collate "C" not null,
  item_id text collate "C" not null,
  response_id text collate "C" not null references responses (id) on delete cascade,
  primary key (key_hash, item_id)
);

create index items_of_response on response_items (response_id);

create table alerts (
  id text collate "C" primary key,
  workspace_id text collate "C" not null references workspaces (id),
  name text collate "C" not null,
  cause text collate "C" not null,
  thresholds text collate "C" not null,
  "window" text collate "C",
  key_hash text collate "C",
  provider text collate "C",
  destination_id text collate "C",
  sealed text collate "C" not null,
  disabled bigint not null,
  created_at text collate "C" not null,
  updated_at text collate "C" not null
);

create table alert_notices (
  id text collate "C" primary key,
  alert_id text collate "C" not null,
  content text collate "C" not null,
  created_at text collate "C" not null,
  ends_at text collate "C",
  state text collate "C" not null,
  due_at text collate "C",
  attempts bigint not null,
  error text collate "C"
);

create index alert_notices_waiting on alert_notices (due_at) where due_at is not null;

create index alert_notices_of on alert_notices (alert_id);

create table mcp_logins (
  label text collate "C" primary key,
  sealed text collate "C" not null,
  updated_at text collate "C" not null
);

create table call_spend (
  account text collate "C" not null,
  day bigint not null,
  byok bigint not null,
  nanos bigint not null,
  primary key (account, day, byok)
);

create index call_spend_of_day on call_spend (day);

-- The destinations for which something waits: one step for each, however much that is.
create view delivery_receivers as
with recursive receivers (destination_id) as (
  (select destination_id from deliveries order by destination_id limit 1)
  union all
  select (select d.destination_id from deliveries as d
    where d.destination_id > receivers.destination_id order by d.destination_id limit 1)
  from receivers where receivers.destination_id is not null
)
select destination_id from receivers where destination_id is not null;

create function count_transcripts() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then update transcript_use set bytes = bytes + new.size_bytes;
  else update transcript_use set bytes = bytes - old.size_bytes;
  end if;
  return null;
end $$;

create trigger transcripts_are_counted after insert or delete on transcripts
  for each row execute function count_transcripts();

insert into transcript_use values (0);

create trigger ledger_is_numbered before insert on ledger
  for each row when (new.seq is null or new.source = 'opening') execute function give_seq();

create trigger audit_stays before update or delete on audit
  for each row execute function refuse_change();

create trigger credits_stay before update or delete on credits
  for each row execute function refuse_change();

create trigger audit_are_numbered before insert on audit
  for each row execute function give_number();

create trigger credits_are_numbered before insert on credits
  for each row execute function give_number();

create trigger refusals_are_numbered before insert on refusals
  for each row execute function give_number();

create trigger transcripts_are_numbered before insert on transcripts
  for each row execute function give_number();

create trigger responses_are_numbered before insert on responses
  for each row execute function give_number();

create trigger outbox_are_numbered before insert on outbox
  for each row execute function give_number();

-- What the servers remember together: what may be used once, and what is over, by its name.
create table marks (
  name text collate "C" primary key,
  ends_at timestamptz not null
);

create index marks_by_end on marks (ends_at);

-- The calls under clients' keys, of whichever process: who makes one, and its answer, sealed.
create table kept_calls (
  name text collate "C" primary key,
  fingerprint text collate "C" not null,
  incarnation text collate "C" not null,
  begun_at timestamptz not null,
  ended_at timestamptz,
  sealed text collate "C",
  bytes bigint not null
);

create index kept_calls_of_time on kept_calls (begun_at);

-- The process in which a container runs, and whether another one waits for it.
create table homes (
  container_id text collate "C" primary key,
  incarnation text collate "C" not null,
  is_wanted boolean not null
);

-- What is in memory of every process, and is not as it was: in the order in which it came to be.
create table changes (
  seq bigint generated always as identity primary key,
  noun text collate "C" not null,
  name text collate "C" not null
);

-- Any program's changes are noted, one transaction after the other, so that none is numbered before
-- one that is seen earlier. The first argument is the noun, the next is how its name is made of the
-- columns after it. The newest ten thousand are kept. Older ones are removed a thousand at a time: each
-- removal in a transaction looks at all that it has removed before.
create function note_change() returns trigger language plpgsql as $$
declare
  last bigint;
  path text := current_setting('search_path');
  is_guest boolean := current_schema() is distinct from tg_table_schema;
begin
  if is_guest then
    perform set_config('search_path', quote_ident(tg_table_schema), true);
  end if;
  perform from gate for update;
  insert into changes (noun, name)
    select distinct tg_argv[0], format(tg_argv[1], one ->> tg_argv[2], one ->> tg_argv[3])
    from (values (to_jsonb(old)), (to_jsonb(new))) as rows (one) where one is not null;
  select max(seq) into last from changes;
  if last % 1000 = 0 then
    delete from changes where seq <= last - 10000;
  end if;
  if is_guest then
    perform set_config('search_path', path, true);
  end if;
  return null;
end $$;

create trigger keys_are_noted after insert or update or delete on keys
  for each row execute function note_change('keys', '%s', 'hash');

create trigger workspaces_are_noted after insert or update or delete on workspaces
  for each row execute function note_change('workspaces', '%s', 'id');

create trigger byok_are_noted after insert or update or delete on byok
  for each row execute function note_change('byok', '%s', 'id');

create trigger destinations_are_noted after insert or update or delete on destinations
  for each row execute function note_change('destinations', '%s', 'id');

create trigger alerts_are_noted after insert or update or delete on alerts
  for each row execute function note_change('alerts', '%s', 'id');

create trigger guardrails_are_noted after insert or update or delete on guardrails
  for each row execute function note_change('guardrails', '%s', 'id');

create trigger budgets_are_noted after insert or update or delete on budgets
  for each row execute function note_change('budgets', '%s %s', 'workspace_id', 'interval');

create trigger presets_are_noted after insert or update or delete on presets
  for each row execute function note_change('presets', '%s/%s', 'workspace_id', 'slug');

create trigger guardrail_keys_are_noted after insert or update or delete on guardrail_keys
  for each row execute function note_change('assignments', '%s', 'key_hash');

create trigger guardrail_members_are_noted after insert or update or delete on guardrail_members
  for each row execute function note_change('assignments', 'member %s', 'user_id');

create trigger preset_versions_are_noted after update on preset_versions
  for each row execute function note_change('presets', '');

create trigger credits_are_noted after insert on credits
  for each row execute function note_change('credits', '');
