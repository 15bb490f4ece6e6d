-- Messages of calls that were recorded in one transaction, for the same destinations, are one row,
-- with a line for each call: rows cost more than what they hold. Their numbers end with `sequence`.
alter table outbox add column calls integer not null default 1;
alter table deliveries add column calls integer not null default 1;
