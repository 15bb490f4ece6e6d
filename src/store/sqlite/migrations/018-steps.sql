-- The turns of the model and the uses of tools of a call that had several, as JSON.
alter table generations add column steps text not null default '[]';
