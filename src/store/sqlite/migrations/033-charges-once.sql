-- A call is charged once for each of its steps, whoever inserts the row. What is there twice already
-- keeps its place in the chain, and is told apart by its number.
alter table ledger add column again integer not null default 0;

with twice as (
  select id, step, min(seq) as first from ledger group by id, step having count(*) > 1
)
update ledger set again = seq from twice
where ledger.id = twice.id and ledger.step = twice.step and seq > first;

create unique index ledger_of_calls on ledger (id, step, again);

create trigger ledger_charges_once before insert on ledger when new.again <> 0
begin
  select raise(abort, 'a call is charged once for each of its steps');
end;
