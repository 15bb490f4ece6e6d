-- A file that a command has left in a container may be kept also where it is empty.
alter table files rename to filled_files;

create table files (
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

insert into files select id, workspace_id, filename, mime_type, size_bytes, downloadable, purpose,
  created_at, sha256, expires_at from filled_files;
drop table filled_files;

create index files_by_workspace on files (workspace_id, id, size_bytes);
create index files_by_expiry on files (expires_at) where expires_at is not null;
