-- Every change: its actor, its target, the record before and after. Rows are only ever added, and
-- outlive the records that they are about.
create table audit (
  sequence integer primary key,
  id text not null unique,
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

create index audit_of_workspace on audit (workspace_id);
create index audit_of_resource on audit (resource_id);
create index audit_of_time on audit (created_at);

create trigger audit_is_not_changed before update on audit begin
  select raise(abort, 'what was changed stays on record');
end;

create trigger audit_is_not_removed before delete on audit begin
  select raise(abort, 'what was changed stays on record');
end;
