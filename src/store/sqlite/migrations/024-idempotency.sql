-- Answers to changes that clients may repeat: one for each of their keys, sealed. Without a status
-- the first request still runs, or was interrupted.
create table idempotency (
  name text primary key,
  fingerprint text not null,
  created_at text not null,
  status integer,
  sealed text
) strict;

create index idempotency_of_time on idempotency (created_at);
