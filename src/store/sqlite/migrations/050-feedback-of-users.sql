-- Who says something without a key, in a session or at the terminal, has an opinion of their own.
create table feedback_before as select * from feedback;
drop table feedback;
create table feedback (
  generation_id text not null,
  key_hash text not null,
  user_id text not null,
  category text not null,
  comment text,
  created_at text not null,
  primary key (generation_id, key_hash, user_id, category)
) strict, without rowid;
insert into feedback
  select generation_id, key_hash, '', category, comment, created_at from feedback_before;
drop table feedback_before;
