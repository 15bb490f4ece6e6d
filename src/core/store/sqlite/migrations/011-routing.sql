-- By which way in a call came, and which router chose its model.
alter table generations add column data_region text not null default 'global';
alter table generations add column router text;
