-- The records of files. Their bytes are blobs beside the database.
create table files (
  id text primary key,
  workspace_id text not null references workspaces (id),
  filename text not null,
  mime_type text not null,
  size_bytes integer not null check (size_bytes > 0),
  downloadable integer not null check (downloadable in (0, 1)),
  purpose text,
  created_at text not null
) strict;

-- A page of a list and the sum of a quota read this index only as far as they need.
create index files_by_workspace on files (workspace_id, id, size_bytes);
