-- The parameters and tools that were left out, as the model that answered has none of them.
alter table generations add column ignored text not null default '[]';
