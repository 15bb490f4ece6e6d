-- Homes that commands run in, and the records of their files. The bytes are blobs.
create table containers (
  id text primary key,
  workspace_id text not null references workspaces (id),
  name text not null,
  created_at text not null,
  last_used_at text not null,
  ended_at text,
  unique (workspace_id, name)
) strict;

create table container_files (
  container_id text not null references containers (id) on delete cascade,
  path text not null,
  size_bytes integer not null check (size_bytes >= 0),
  mode integer not null,
  blob text not null unique,
  promoted_id text,
  created_at text not null,
  primary key (container_id, path)
) strict;
