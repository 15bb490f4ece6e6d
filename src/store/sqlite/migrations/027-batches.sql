-- Files of requests that are made one after the other, and their results until they are files.
create table batches (
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
) strict;

create index batches_of_workspaces on batches (workspace_id, id);
create index batches_unfinished on batches (id) where ended_at is null;

-- What came of a line: sealed, as answers are.
create table batch_results (
  batch_id text not null references batches (id) on delete cascade,
  line integer not null,
  is_error integer not null,
  sealed text not null,
  primary key (batch_id, line)
) strict, without rowid;

-- The batch that a call is a line of.
alter table generations add column batch_id text;
