-- What a person has given the gateway for a server of mcp_servers: tokens, and who it is there.
create table mcp_logins (
  label text primary key,
  sealed text not null,
  updated_at text not null
) strict;
