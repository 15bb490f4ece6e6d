-- Whether a budget refuses nothing and only tells: 1, or null.
alter table budgets add column soft integer;

-- The name of the credential that a job was begun with, where its provider has several.
alter table videos add column credential text;
