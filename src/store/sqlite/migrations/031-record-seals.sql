-- The records of each transaction that wrote calls are sealed together: their rows, one after the
-- other, with the values of their first so many columns. The first seal says which records are from
-- before; those of 0 columns stand for nothing else.
create table record_seals (
  n integer primary key,
  first_row integer not null,
  last_row integer not null,
  columns integer not null,
  seal text not null
) strict;
