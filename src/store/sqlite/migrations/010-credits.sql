-- Payments in nano-dollars; negative amounts are corrections. Rows are only ever added.
create table credits (
  sequence integer primary key,
  id text not null unique,
  created_at text not null,
  amount integer not null,
  note text,
  user_id text not null
) strict;

create trigger credits_are_not_changed before update on credits begin
  select raise(abort, 'what was paid in stays on record');
end;

create trigger credits_are_not_removed before delete on credits begin
  select raise(abort, 'what was paid in stays on record');
end;
