-- The matches of content filters in a call and its answer, as JSON.
alter table generations add column contentFilters text not null default '[]';
