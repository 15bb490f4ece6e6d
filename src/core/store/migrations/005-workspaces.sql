-- The people of the organization. A row stays when somebody leaves: what he did is told of by his id.
create table members (
  id text primary key,
  email text not null,
  first_name text,
  last_name text,
  role text not null check (role in ('org:admin', 'org:member')),
  active integer not null,
  created_at text not null,
  updated_at text
) strict;

create unique index members_email on members (lower(email)) where active = 1;

-- Who was put into which workspace, and by whom: an administrator, or a mapping of the identity provider's groups.
create table workspace_members (
  id text primary key,
  workspace_id text not null references workspaces (id),
  user_id text not null references members (id),
  role text not null check (role in ('admin', 'member')),
  created_at text not null,
  source text not null check (source in ('manual', 'scim')),
  unique (workspace_id, user_id)
) strict;
