-- A call may take several model turns, its steps. Each is charged once, in a row of its own.
alter table ledger add column step integer not null default 1;

-- Whether the call has several steps, as far as is known when the row is written. Only such rows
-- are in the index: of a call of one step its generation says that it was charged.
alter table ledger add column several integer not null default 0;

create unique index ledger_of_steps on ledger (id, step) where several = 1;

-- What is to be told to others of calls, written in the transaction that records them. A row goes
-- when it was told, and its number is not given again.
create table outbox (
  sequence integer primary key autoincrement,
  topic text not null,
  generation_id text not null,
  payload text not null,
  created_at text not null
) strict;
