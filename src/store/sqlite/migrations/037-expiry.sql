-- When a file goes by itself; null for those that stay. And how many seconds the files of a batch's
-- results stay; null for ever.
alter table files add column expires_at text;
alter table batches add column output_expires_after integer;

create index files_by_expiry on files (expires_at) where expires_at is not null;
