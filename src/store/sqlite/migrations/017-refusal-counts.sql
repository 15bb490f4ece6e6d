-- A flood of refusals has a few rows; the last of them counts the others.
alter table refusals add column left_out integer not null default 0;
alter table refusals add column left_out_until text;
