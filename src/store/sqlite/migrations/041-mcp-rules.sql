-- What a guardrail allows at /mcp, as JSON.
alter table guardrails add column mcp text;
