-- A call may take several model turns, its steps. Each is charged once, in a row of its own.
alter table ledger add column step integer not null default 1;

-- Whether the call has several steps, as far as is known when the row is written. Only such rows
-- are in the index: the generation of a one-step call shows that it was charged.
alter table ledger add column several integer not null default 0;

create unique index ledger_of_steps on ledger (id, step) where several = 1;

-- Messages about calls for other systems, written in the transaction that records the calls. A row
-- is deleted after delivery, and its number is not reused.
create table outbox (
  sequence integer primary key autoincrement,
  topic text not null,
  generation_id text not null,
  payload text not null,
  created_at text not null
) strict;
