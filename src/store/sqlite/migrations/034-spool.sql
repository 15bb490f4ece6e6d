-- Where a row's messages are in the spool: the block of a segment, and which of its messages is the
-- row's first. Null where the payload is in the row. The sizes are those of the messages, in bytes,
-- a line each.
alter table outbox add column segment integer;
alter table outbox add column start integer;
alter table outbox add column length integer;
alter table outbox add column first integer;
alter table outbox add column sizes text;

create index outbox_by_segment on outbox (segment, length) where segment is not null;
