-- What is in memory of every process, and is not as it was: in the order in which it came to be. Any
-- program's changes are noted, by these triggers. The newest ten thousand are kept.

create table changes (
  seq integer primary key,
  noun text not null,
  name text not null
) strict;

create trigger changes_are_few after insert on changes begin
  delete from changes where seq <= new.seq - 10000;
end;

create trigger keys_are_added after insert on keys begin
  insert into changes (noun, name) values ('keys', new.hash);
end;

create trigger keys_are_changed after update on keys begin
  insert into changes (noun, name) select 'keys', old.hash union select 'keys', new.hash;
end;

create trigger keys_are_removed after delete on keys begin
  insert into changes (noun, name) values ('keys', old.hash);
end;

create trigger workspaces_are_added after insert on workspaces begin
  insert into changes (noun, name) values ('workspaces', new.id);
end;

create trigger workspaces_are_changed after update on workspaces begin
  insert into changes (noun, name) select 'workspaces', old.id union select 'workspaces', new.id;
end;

create trigger workspaces_are_removed after delete on workspaces begin
  insert into changes (noun, name) values ('workspaces', old.id);
end;

create trigger byok_are_added after insert on byok begin
  insert into changes (noun, name) values ('byok', new.id);
end;

create trigger byok_are_changed after update on byok begin
  insert into changes (noun, name) select 'byok', old.id union select 'byok', new.id;
end;

create trigger byok_are_removed after delete on byok begin
  insert into changes (noun, name) values ('byok', old.id);
end;

create trigger destinations_are_added after insert on destinations begin
  insert into changes (noun, name) values ('destinations', new.id);
end;

create trigger destinations_are_changed after update on destinations begin
  insert into changes (noun, name) select 'destinations', old.id union select 'destinations', new.id;
end;

create trigger destinations_are_removed after delete on destinations begin
  insert into changes (noun, name) values ('destinations', old.id);
end;

create trigger alerts_are_added after insert on alerts begin
  insert into changes (noun, name) values ('alerts', new.id);
end;

create trigger alerts_are_changed after update on alerts begin
  insert into changes (noun, name) select 'alerts', old.id union select 'alerts', new.id;
end;

create trigger alerts_are_removed after delete on alerts begin
  insert into changes (noun, name) values ('alerts', old.id);
end;

create trigger guardrails_are_added after insert on guardrails begin
  insert into changes (noun, name) values ('guardrails', new.id);
end;

create trigger guardrails_are_changed after update on guardrails begin
  insert into changes (noun, name) select 'guardrails', old.id union select 'guardrails', new.id;
end;

create trigger guardrails_are_removed after delete on guardrails begin
  insert into changes (noun, name) values ('guardrails', old.id);
end;

create trigger budgets_are_added after insert on budgets begin
  insert into changes (noun, name) values ('budgets', new.workspace_id || ' ' || new."interval");
end;

create trigger budgets_are_changed after update on budgets begin
  insert into changes (noun, name) select 'budgets', old.workspace_id || ' ' || old."interval" union select 'budgets', new.workspace_id || ' ' || new."interval";
end;

create trigger budgets_are_removed after delete on budgets begin
  insert into changes (noun, name) values ('budgets', old.workspace_id || ' ' || old."interval");
end;

create trigger presets_are_added after insert on presets begin
  insert into changes (noun, name) values ('presets', new.workspace_id || '/' || new.slug);
end;

create trigger presets_are_changed after update on presets begin
  insert into changes (noun, name) select 'presets', old.workspace_id || '/' || old.slug union select 'presets', new.workspace_id || '/' || new.slug;
end;

create trigger presets_are_removed after delete on presets begin
  insert into changes (noun, name) values ('presets', old.workspace_id || '/' || old.slug);
end;

create trigger guardrail_keys_are_added after insert on guardrail_keys begin
  insert into changes (noun, name) values ('assignments', new.key_hash);
end;

create trigger guardrail_keys_are_changed after update on guardrail_keys begin
  insert into changes (noun, name) select 'assignments', old.key_hash union select 'assignments', new.key_hash;
end;

create trigger guardrail_keys_are_removed after delete on guardrail_keys begin
  insert into changes (noun, name) values ('assignments', old.key_hash);
end;

create trigger guardrail_members_are_added after insert on guardrail_members begin
  insert into changes (noun, name) values ('assignments', 'member ' || new.user_id);
end;

create trigger guardrail_members_are_changed after update on guardrail_members begin
  insert into changes (noun, name) select 'assignments', 'member ' || old.user_id union select 'assignments', 'member ' || new.user_id;
end;

create trigger guardrail_members_are_removed after delete on guardrail_members begin
  insert into changes (noun, name) values ('assignments', 'member ' || old.user_id);
end;

create trigger preset_versions_are_changed after update on preset_versions begin
  insert into changes (noun, name) values ('presets', '');
end;

create trigger credits_are_added after insert on credits begin
  insert into changes (noun, name) values ('credits', '');
end;
