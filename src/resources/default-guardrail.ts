/**
 * Returns the id of a workspace's default guardrail, also before there is one: a UUID of version 5
 * (RFC 9562) in a namespace of the gateway.
 */
export const getDefaultGuardrailId = (workspace_id: string): string =>
  Bun.randomUUIDv5(workspace_id, DEFAULT_GUARDRAILS)

const DEFAULT_GUARDRAILS = '6f1c1e0e-3b0a-5d55-9a54-8e9f6a3f2c17'
