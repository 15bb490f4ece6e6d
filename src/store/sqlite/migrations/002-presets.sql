-- Named configurations and all their versions. The pointer designates the version in use.

create table presets (
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

create table preset_versions (
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

alter table generations add column preset_id text;
