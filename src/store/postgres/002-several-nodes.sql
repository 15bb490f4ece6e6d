-- The background work of all servers: who has it, until when it is not another's, and how often that
-- one has looked for work.
create table jobs (
  name text collate "C" primary key,
  node text collate "C" not null,
  incarnation text collate "C" not null,
  until timestamptz not null,
  looks bigint not null
);
