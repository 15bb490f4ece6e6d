-- Lists of calls by whose they are, and by the id that their caller saw.
create index generations_by_key on generations (key_hash);
create index generations_by_request on generations (request_id);
create index generations_by_session on generations (session_id) where session_id is not null;
