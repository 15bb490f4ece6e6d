-- Rules for calls: permitted endpoints, limits of spending, filters of content. Lists are JSON.
-- Null means no rule.
create table guardrails (
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
) strict;

-- At most one guardrail is assigned to a key, and one to a member.
create table guardrail_keys (
  id text primary key,
  guardrail_id text not null references guardrails (id) on delete cascade,
  key_hash text not null unique references keys (hash) on delete cascade,
  assigned_by text,
  created_at text not null
) strict;

create table guardrail_members (
  id text primary key,
  guardrail_id text not null references guardrails (id) on delete cascade,
  user_id text not null unique,
  assigned_by text,
  created_at text not null
) strict;

create index guardrail_keys_by_guardrail on guardrail_keys (guardrail_id);
create index guardrail_members_by_guardrail on guardrail_members (guardrail_id);
