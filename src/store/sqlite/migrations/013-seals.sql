-- The seal of every row that grants or limits something, and of every audit entry: HMAC with a key
-- that is not in the database. `id` is the row's primary key.
create table seals (
  noun text not null,
  id text not null,
  seal text not null,
  primary key (noun, id)
) strict, without rowid;

-- One entry for each transaction that sealed rows: the sum of all seals, sealed together with the
-- entry before it. The first entry has the opening: what stood here when sealing began, as JSON.
create table seal_log (
  n integer primary key,
  sum text not null,
  seal text not null,
  opening text
) strict;
