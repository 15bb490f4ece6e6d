-- Every change that somebody made: who, what, how it was before and after. Rows are only ever added, and outlive what they tell of.
create table audit (
  id text primary key,
  created_at text not null,
  actor text not null,
  user_id text not null,
  key_hash text,
  workspace_id text,
  action text not null,
  resource_id text not null,
  before text,
  after text
) strict;
