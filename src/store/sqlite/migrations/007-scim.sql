-- The tokens of the identity provider. There may be several, so that one can replace another.
create table scim_tokens (
  id text primary key,
  name text not null,
  label text not null,
  hash text not null unique,
  created_by text not null,
  created_at text not null
) strict;

-- A member as the identity provider knows them. `name_key` is their userName in lower case.
create table scim_users (
  id text primary key,
  user_id text not null unique references members (id),
  name_key text not null unique,
  external_id text,
  resource text not null,
  version integer not null,
  created_at text not null,
  updated_at text not null
) strict;

create index scim_users_external_id on scim_users (external_id);

create table scim_groups (
  id text primary key,
  display_name text not null,
  name_key text not null,
  external_id text,
  version integer not null,
  created_at text not null,
  updated_at text not null
) strict;

create index scim_groups_name_key on scim_groups (name_key);
create index scim_groups_external_id on scim_groups (external_id);

create table scim_group_members (
  group_id text not null references scim_groups (id) on delete cascade,
  scim_user_id text not null references scim_users (id) on delete cascade,
  primary key (group_id, scim_user_id)
) strict, without rowid;

create index scim_group_members_user on scim_group_members (scim_user_id);

-- The members of the group are in the workspace, with this role.
create table scim_group_mappings (
  id text primary key,
  scim_group_id text not null references scim_groups (id) on delete cascade,
  workspace_id text not null references workspaces (id),
  role text not null check (role in ('admin', 'member')),
  created_at text not null,
  updated_at text not null,
  unique (scim_group_id, workspace_id)
) strict;

create table scim_sync_jobs (
  id text primary key,
  status text not null check (status in ('queued', 'running', 'succeeded', 'failed')),
  synced_groups integer,
  deleted_groups integer,
  error_message text,
  created_at text not null,
  started_at text,
  finished_at text
) strict;
