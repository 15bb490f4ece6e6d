-- The feed of changes. What is here stands in schema.sql too.
-- What is in memory of every process, and is not as it was: in the order in which it came to be.
create table changes (
  seq bigint generated always as identity primary key,
  noun text collate "C" not null,
  name text collate "C" not null
);

-- Any program's changes are noted, one transaction after the other, so that none is numbered before
-- one that is seen earlier. The first argument is the noun, the next is how its name is made of the
-- columns after it. The newest ten thousand are kept. Older ones are removed a thousand at a time: each
-- removal in a transaction looks at all that it has removed before.
create function note_change() returns trigger language plpgsql as $$
declare
  last bigint;
  path text := current_setting('search_path');
  is_guest boolean := current_schema() is distinct from tg_table_schema;
begin
  if is_guest then
    perform set_config('search_path', quote_ident(tg_table_schema), true);
  end if;
  perform from gate for update;
  insert into changes (noun, name)
    select distinct tg_argv[0], format(tg_argv[1], one ->> tg_argv[2], one ->> tg_argv[3])
    from (values (to_jsonb(old)), (to_jsonb(new))) as rows (one) where one is not null;
  select max(seq) into last from changes;
  if last % 1000 = 0 then
    delete from changes where seq <= last - 10000;
  end if;
  if is_guest then
    perform set_config('search_path', path, true);
  end if;
  return null;
end $$;

create trigger keys_are_noted after insert or update or delete on keys
  for each row execute function note_change('keys', '%s', 'hash');

create trigger workspaces_are_noted after insert or update or delete on workspaces
  for each row execute function note_change('workspaces', '%s', 'id');

create trigger byok_are_noted after insert or update or delete on byok
  for each row execute function note_change('byok', '%s', 'id');

create trigger destinations_are_noted after insert or update or delete on destinations
  for each row execute function note_change('destinations', '%s', 'id');

create trigger alerts_are_noted after insert or update or delete on alerts
  for each row execute function note_change('alerts', '%s', 'id');

create trigger guardrails_are_noted after insert or update or delete on guardrails
  for each row execute function note_change('guardrails', '%s', 'id');

create trigger budgets_are_noted after insert or update or delete on budgets
  for each row execute function note_change('budgets', '%s %s', 'workspace_id', 'interval');

create trigger presets_are_noted after insert or update or delete on presets
  for each row execute function note_change('presets', '%s/%s', 'workspace_id', 'slug');

create trigger guardrail_keys_are_noted after insert or update or delete on guardrail_keys
  for each row execute function note_change('assignments', '%s', 'key_hash');

create trigger guardrail_members_are_noted after insert or update or delete on guardrail_members
  for each row execute function note_change('assignments', 'member %s', 'user_id');

create trigger preset_versions_are_noted after update on preset_versions
  for each row execute function note_change('presets', '');

create trigger credits_are_noted after insert on credits
  for each row execute function note_change('credits', '');
