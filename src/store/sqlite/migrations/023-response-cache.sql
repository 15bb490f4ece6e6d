-- The call whose answer was given again.
alter table generations add column response_cache_source_id text;
