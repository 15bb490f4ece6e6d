-- How often calls may be made.
alter table guardrails add column requests_per_minute integer;
alter table guardrails add column tokens_per_minute integer;
alter table guardrails add column concurrent_requests integer;
