-- What was asked and answered in calls, sealed. The bytes of all of them are counted as they come
-- and go, so that their bound costs no pass over the table.
create table transcripts (
  sequence integer primary key autoincrement,
  generation_id text not null unique,
  workspace_id text not null,
  key_hash text,
  created_at text not null,
  size_bytes integer not null check (size_bytes > 0),
  sealed text not null
) strict;

create index transcripts_of_workspace on transcripts (workspace_id);
create index transcripts_of_time on transcripts (created_at);

create table transcript_use (bytes integer not null) strict;
insert into transcript_use (bytes) values (0);

create trigger transcript_is_added after insert on transcripts begin
  update transcript_use set bytes = bytes + new.size_bytes;
end;

create trigger transcript_is_removed after delete on transcripts begin
  update transcript_use set bytes = bytes - old.size_bytes;
end;

-- What callers say about answers: one opinion of a key for each category.
create table feedback (
  generation_id text not null,
  key_hash text not null,
  category text not null,
  comment text,
  created_at text not null,
  primary key (generation_id, key_hash, category)
) strict, without rowid;

-- The calls of each day whose records are no longer kept: the roll-ups have their sums.
create table evicted_days (
  day text primary key,
  calls integer not null,
  -- What the ledger has charged for them.
  charged integer not null
) strict, without rowid;

-- How many rows of each kind were removed, and why.
create table evictions (
  kind text not null,
  reason text not null,
  rows integer not null,
  last_at text not null,
  primary key (kind, reason)
) strict, without rowid;
