-- Who the provider of a sign-in says has begun a session, and in which of its own; null without one.
alter table sign_ins add column issuer text;
alter table sign_ins add column subject text;
alter table sign_ins add column sid text;
