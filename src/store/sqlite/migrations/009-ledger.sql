-- Every charge, in the order of settlement. Each row's hash covers the row and the hash before it,
-- so that no row can be changed or removed unnoticed. Rows from before the chain have no hash, and
-- are covered by the first hash.
create table ledger (
  seq integer primary key,
  id text not null,
  settled_at text not null,
  key_hash text not null,
  user_id text not null,
  workspace_id text not null,
  byok integer not null,
  nanos integer not null,
  source text not null check (source in ('exact', 'estimated', 'none', 'opening')),
  hash text
) strict;

-- Spending is counted by member and workspace too.
alter table spend rename to spend_by_key;

create table spend (
  key_hash text not null,
  user_id text not null,
  workspace_id text not null,
  day integer not null,
  byok integer not null,
  nanos integer not null,
  primary key (key_hash, day, byok)
) strict, without rowid;

create temp table payers as
select key_hash, min(user_id) as user_id, min(workspace_id) as workspace_id
from generations where key_hash is not null group by key_hash;

insert into spend
select spend_by_key.key_hash, coalesce(user_id, ''), coalesce(workspace_id, ''), day, byok, nanos
from spend_by_key left join payers on payers.key_hash = spend_by_key.key_hash;

insert into ledger (id, settled_at, key_hash, user_id, workspace_id, byok, nanos, source)
select 'opening-' || key_hash || '-' || day || '-' || byok,
  date(day * 86400, 'unixepoch') || 'T00:00:00.000Z',
  key_hash, user_id, workspace_id, byok, nanos, 'opening'
from spend order by day, key_hash, byok;

drop table payers;
drop table spend_by_key;
