-- The region at which a call arrived, and the router that picked its model.
alter table generations add column data_region text not null default 'global';
alter table generations add column router text;
