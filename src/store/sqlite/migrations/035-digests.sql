-- What the bytes of a file have to be: their SHA-256, in hexadecimal digits. Null for files from
-- before.
alter table files add column sha256 text;
alter table container_files add column sha256 text;
