-- Where the end of a job is told. The URL is sealed, and forgotten once it is told or given up.
alter table videos add column callback_url text;
alter table videos add column callback text;
alter table videos add column callback_at text;
alter table videos add column callback_attempts integer not null default 0;
alter table videos add column callback_error text;
create index videos_to_tell on videos (callback_at) where callback_at is not null;
