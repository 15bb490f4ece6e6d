-- What calls of one end user, tag or model may cost, as JSON.
alter table guardrails add column budgets text;

-- What they have cost, by the account that counts them. Days are those of `spend`.
create table call_spend (
  account text not null,
  day integer not null,
  byok integer not null,
  nanos integer not null,
  primary key (account, day, byok)
) strict, without rowid;
create index call_spend_of_day on call_spend (day);
