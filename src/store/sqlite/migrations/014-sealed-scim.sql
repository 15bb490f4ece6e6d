-- From here on the owner and what the identity provider has sent are sealed too. An opening is
-- written again when the owner of the directory seals it anew; the newest one counts.
create index seal_openings on seal_log (n) where opening is not null;
