-- What content filters found in a call and its answer, as JSON.
alter table generations add column contentFilters text not null default '[]';
