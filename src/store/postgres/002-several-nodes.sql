-- Several servers of one database. What is here stands in schema.sql too.
alter table gate add column oldest bigint not null default 2;

alter table nodes add column is_alone bigint not null default 1;

alter table nodes add column lent text collate "C";

alter table nodes add column running text collate "C";

alter table nodes add column config_hash text collate "C";

alter table nodes add column schema_version bigint;

insert into numbers values ('generations', 0) on conflict (name) do nothing;

-- What a window of an account has used of its limits: what was spent in it, and what nodes have on
-- lease. A meter is an account, and which way of paying counts. A sum may be larger than any amount.
create table accounts (
  meter text collate "C" not null,
  period text collate "C" not null,
  first_day bigint not null,
  used numeric not null,
  primary key (meter, period)
);

-- What a node may spend of an account without asking. Less than nothing where a call has cost more
-- than was set aside.
create table leases (
  meter text collate "C" not null,
  node text collate "C" not null,
  amount numeric not null,
  -- Since when another node has too little, and when this one has last given back what it could.
  wanted_at timestamptz,
  answered_at timestamptz,
  primary key (meter, node)
);

create index leases_of_nodes on leases (node);

-- Which rows of the ledger a node has written that it has not read among those of all.
create table charged (
  last_row bigint primary key,
  first_row bigint not null,
  node text collate "C" not null
);

-- The background work of all servers: who has it, until when it is not another's, and how often that
-- one has looked for work.
create table jobs (
  name text collate "C" primary key,
  node text collate "C" not null,
  incarnation text collate "C" not null,
  until timestamptz not null,
  looks bigint not null
);

-- What providers have said to a server that has not the jobs, and when last.
create table sightings (
  name text collate "C" primary key,
  seen_at timestamptz not null
);

create or replace function give_seq() returns trigger language plpgsql as $$
begin
  if new.source = 'opening' then
    perform last from numbers where name = 'generations' for update;
    update accounts set used = used + new.nanos where meter in (
      'own key ' || new.key_hash, 'own member ' || new.user_id,
      'own workspace ' || new.workspace_id, 'own all', 'any key ' || new.key_hash,
      'any member ' || new.user_id, 'any workspace ' || new.workspace_id, 'any all');
  end if;
  select coalesce(max(seq), 0) + 1 into new.seq from ledger;
  return new;
end $$;

-- What the servers remember together: what may be used once, and what is over, by its name.
create table marks (
  name text collate "C" primary key,
  ends_at timestamptz not null
);

create index marks_by_end on marks (ends_at);

-- The calls under clients' keys, of whichever process: who makes one, and its answer, sealed.
create table kept_calls (
  name text collate "C" primary key,
  fingerprint text collate "C" not null,
  incarnation text collate "C" not null,
  begun_at timestamptz not null,
  ended_at timestamptz,
  sealed text collate "C",
  bytes bigint not null
);

create index kept_calls_of_time on kept_calls (begun_at);

-- The process in which a container runs, and whether another one waits for it.
create table homes (
  container_id text collate "C" primary key,
  incarnation text collate "C" not null,
  is_wanted boolean not null
);
