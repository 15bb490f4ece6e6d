-- Callers' own provider keys. `sealed` is null after the key was deleted.
create table byok (
  id text primary key,
  workspace_id text not null references workspaces (id),
  provider text not null,
  name text,
  label text not null,
  sealed text,
  disabled integer not null,
  is_fallback integer not null,
  is_byok_only integer not null,
  is_required integer not null,
  declared_zdr integer,
  allowed_models text,
  allowed_api_key_hashes text,
  allowed_user_ids text,
  sort_order integer not null,
  created_at text not null,
  deleted_at text
) strict;
