-- How often money was moved. What is here stands in schema.sql too.
alter table numbers add column moves bigint not null default 0;

create or replace function give_seq() returns trigger language plpgsql as $$
begin
  if new.source = 'opening' then
    update numbers set moves = moves + 1 where name = 'generations';
    update accounts set used = used + new.nanos where meter in (
      'own key ' || new.key_hash, 'own member ' || new.user_id,
      'own workspace ' || new.workspace_id, 'own all', 'any key ' || new.key_hash,
      'any member ' || new.user_id, 'any workspace ' || new.workspace_id, 'any all');
  end if;
  if new.seq is null then
    select coalesce(max(seq), 0) + 1 into new.seq from ledger;
  end if;
  return new;
end $$;

drop trigger ledger_is_numbered on ledger;

create trigger ledger_is_numbered before insert on ledger
  for each row when (new.seq is null or new.source = 'opening') execute function give_seq();
