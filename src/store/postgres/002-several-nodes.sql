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
  until timestamptz not null
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

-- What nodes have taken of limits by minutes or days, all together: what a node has in hand counts as
-- taken. A crash of the database empties it.
create unlogged table counts (
  name text collate "C" primary key,
  -- The window since 1970, by the clock of the database.
  number bigint not null,
  ends_at timestamptz not null,
  -- When it was first counted, in milliseconds. Another time says that what was taken was lost.
  born bigint not null,
  taken bigint not null,
  -- When a node last found too little.
  wanted_at timestamptz
) with (fillfactor = 50);

create index counts_wanted on counts (wanted_at) where wanted_at is not null;

-- The places of calls that run at once: how many each process has, by its incarnation.
create table places (
  name text collate "C" primary key,
  holders jsonb not null,
  wanted_at timestamptz
) with (fillfactor = 50);

create index places_wanted on places (wanted_at) where wanted_at is not null;

-- The processes that serve, or may still.
create view serving_nodes as
  select incarnation from nodes
  where left_at is null and seen_at > clock_timestamp() - interval '90 seconds';

-- Takes from counters, one after the other in the order of their names, so that no two nodes wait for
-- each other. Each gets what it wants at least, and more for the next calls: nothing where there is
-- less. What a node knows counts where the counter was lost. A debt is what is taken already, or,
-- below 0, given back. The clock is read once the row is locked.
create function take_counts(asked text)
returns table (place bigint, number bigint, born bigint, taken bigint, granted bigint, nodes bigint,
  moment double precision) language plpgsql as $$
#variable_conflict use_column
declare
  one record;
  kept counts;
  free bigint;
begin
  nodes := greatest(1, (select count(*) from serving_nodes));
  for one in
    select * from jsonb_to_recordset(asked::jsonb) as a (place bigint, name text, length bigint,
      number bigint, born bigint, known bigint, debt bigint, want bigint, demand bigint,
      maximum bigint)
    order by name collate "C"
  loop
    loop
      select * into kept from counts where name = one.name for update;
      exit when found;
      insert into counts values (one.name, -1, '-infinity', 0, 0, null) on conflict do nothing;
    end loop;
    moment := extract(epoch from clock_timestamp())::double precision * 1000;
    number := floor(moment / one.length);
    if kept.number < number then
      kept.taken := case when one.number = number then one.known else 0 end;
      kept.born := floor(moment);
      kept.wanted_at := null;
    elsif one.number = number and kept.born <> one.born then
      kept.taken := greatest(kept.taken, one.known);
    end if;
    granted := 0;
    if one.number = number then
      kept.taken := greatest(0, kept.taken + one.debt);
      free := one.maximum - kept.taken;
      if one.want > 0 and free < one.want then
        kept.wanted_at := clock_timestamp();
      elsif one.want > 0 then
        granted := greatest(one.want, least(one.demand, free / nodes),
          case when kept.wanted_at is null then free / (4 * nodes) else 0 end);
      end if;
      kept.taken := kept.taken + granted;
    end if;
    update counts set number = take_counts.number,
        ends_at = to_timestamp((take_counts.number + 1) * one.length / 1000.0),
        born = kept.born, taken = kept.taken, wanted_at = kept.wanted_at
      where name = one.name;
    place := one.place;
    born := kept.born;
    taken := kept.taken;
    return next;
  end loop;
end $$;

-- Takes places, as `take_counts` does. A process says how many it has, and gets more or none: null
-- where it is not among those that serve. Those of processes that do not serve any more are free.
create function take_places(asked text, node text)
returns table (place bigint, held bigint, others bigint, nodes bigint, moment double precision)
language plpgsql as $$
#variable_conflict use_column
declare
  one record;
  kept places;
  serving text[];
  free bigint;
begin
  for one in
    select * from jsonb_to_recordset(asked::jsonb) as a (place bigint, name text, held bigint,
      want bigint, demand bigint, maximum bigint)
    order by name collate "C"
  loop
    loop
      select * into kept from places where name = one.name for update;
      exit when found;
      insert into places values (one.name, '{}', null) on conflict do nothing;
    end loop;
    -- Read once the row is locked: who has places in it was there before.
    serving := array(select incarnation from serving_nodes);
    nodes := greatest(1, cardinality(serving));
    select coalesce(jsonb_object_agg(key, value), '{}'), coalesce(sum(value::bigint), 0)
      into kept.holders, others
      from jsonb_each_text(kept.holders) where key <> node and key = any (serving);
    held := one.held;
    free := one.maximum - others - held;
    if one.want > 0 and free < one.want then
      kept.wanted_at := clock_timestamp();
    elsif one.want > 0 then
      held := held + greatest(one.want, least(one.demand, free / nodes),
        case when kept.wanted_at > clock_timestamp() - interval '2 seconds' then 0
          else free / (4 * nodes) end);
    end if;
    if held > 0 then
      kept.holders := kept.holders || jsonb_build_object(node, held);
    end if;
    if node <> all (serving) then
      held := null;
    elsif kept.holders = '{}' and kept.wanted_at is null then
      delete from places where name = one.name;
    else
      update places set holders = kept.holders, wanted_at = kept.wanted_at where name = one.name;
    end if;
    place := one.place;
    moment := extract(epoch from clock_timestamp())::double precision * 1000;
    return next;
  end loop;
end $$;
