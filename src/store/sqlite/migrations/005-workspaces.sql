-- The members of the organization. The row of a member who leaves stays, as records refer to it.
create table members (
  id text primary key,
  email text not null,
  first_name text,
  last_name text,
  role text not null check (role in ('org:admin', 'org:member')),
  active integer not null,
  created_at text not null,
  updated_at text
) strict;

create unique index members_email on members (lower(email)) where active = 1;

-- The members of workspaces, and the source of each membership: an administrator, or a mapping of
-- the identity provider's groups.
create table workspace_members (
  id text primary key,
  workspace_id text not null references workspaces (id),
  user_id text not null references members (id),
  role text not null check (role in ('admin', 'member')),
  created_at text not null,
  source text not null check (source in ('manual', 'scim')),
  unique (workspace_id, user_id)
) strict;

-- The limit of a workspace's spending in one window, in nano-dollars.
create table budgets (
  id text primary key,
  workspace_id text not null references workspaces (id),
  "interval" text not null check ("interval" in ('lifetime', 'monthly', 'weekly', 'daily')),
  limit_usd integer not null,
  created_at text not null,
  updated_at text not null,
  unique (workspace_id, "interval")
) strict;

alter table workspaces add column description text;
alter table workspaces add column default_text_model text;
alter table workspaces add column default_image_model text;
alter table workspaces add column default_provider_sort text;
alter table workspaces add column include_byok_in_budgets integer not null default 0;
alter table workspaces add column is_observability_io_logging_enabled integer not null default 0;
alter table workspaces add column is_observability_broadcast_enabled integer not null default 0;
alter table workspaces add column is_data_discount_logging_enabled integer not null default 0;
alter table workspaces add column io_logging_sampling_rate real not null default 1;
alter table workspaces add column io_logging_api_key_ids text;
alter table workspaces add column disabled_server_tools text;
-- The row of a deleted workspace stays, as others refer to it. Its slug is free again.
alter table workspaces add column deleted_at text;

-- Whether a key was made without naming a workspace: it goes with the default one.
alter table keys add column isUnscoped integer not null default 1;
update keys set isUnscoped = 0
where workspace_id <> (select value from meta where name = 'workspace_id');
