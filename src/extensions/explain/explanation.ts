import { type Static, Type } from '@sinclair/typebox'
import { PERIODS } from '../../base/clock.ts'
import { nullable, oneOf, open } from '../../base/schema-builders.ts'
import { REGIONS } from '../../language/call.ts'
import { SERVICE_TIERS } from '../../language/routing.ts'

/**
 * The JSON of a dry run. Money in USD, prices in USD per token as decimal strings, times in ISO
 * 8601.
 */

const Usd = Type.Number({ minimum: 0, description: 'USD' })
const Percentiles = Type.Object({
  p50: Type.Number(),
  p75: Type.Number(),
  p90: Type.Number(),
  p99: Type.Number(),
})

const Guardrail = Type.Object({
  id: Type.String(),
  name: nullable(Type.String(), {
    description: 'Null for one of another workspace; its filters are not listed either',
  }),
  scope: oneOf('workspace', 'member', 'key'),
})

const Filter = Type.Object({
  guardrail_id: Type.String(),
  filter: Type.String({
    description: 'The builtin’s slug, or the pattern’s label; never the pattern',
  }),
  action: oneOf('block', 'redact', 'flag'),
  looks_at: Type.Array(oneOf('prompt', 'answer')),
  found: nullable(
    Type.Integer({
      description: 'How often it was found in this prompt; null if it was not searched for',
    }),
  ),
})

const Limit = Type.Object({
  account: Type.String({
    description: 'Whose spending counts: a key, a member, a workspace, or all',
  }),
  limit_usd: nullable(Usd, { description: 'Null if it counts more than the asker manages' }),
  remaining_usd: nullable(Usd),
  period: nullable(oneOf(...PERIODS)),
  include_byok: Type.Boolean({
    description: 'Whether spending through the caller’s own provider keys counts',
  }),
  pays: nullable(oneOf('yes', 'less', 'no'), {
    description: '`less`: with a smaller max_tokens; null if it is unknown what the call may cost',
  }),
  refusal: Type.String({ description: 'The message of the error when it stops a call' }),
})

const Cost = Type.Object({
  usd: Usd,
  prompt: Usd,
  completion: Usd,
  prompt_tokens: Type.Integer({ description: 'Expected, an upper estimate' }),
  completion_tokens: Type.Integer({
    description: 'The most that the answer may have, in all its choices',
  }),
  bounded_by: oneOf('call', 'endpoint', 'limit', 'config'),
})

const Endpoint = Type.Object({
  provider: Type.String({ description: 'Its slug' }),
  provider_name: Type.String(),
  model: Type.String(),
  upstream_model: Type.String({ description: 'The provider’s own name for the model' }),
  region: nullable(Type.String()),
  quantization: Type.String(),
  service_tier: nullable(oneOf(...SERVICE_TIERS)),
  is_byok: Type.Boolean(),
  pricing: Type.Record(Type.String(), Type.Unknown(), { description: 'As GET /models shows it' }),
  estimated_cost: nullable(Cost),
  max_cost: nullable(Usd),
  cooldown: nullable(
    Type.Object({ until: Type.String(), reason: oneOf('failures', 'asked_to_wait', 'by_hand') }),
  ),
  latency: nullable(Percentiles),
  throughput: nullable(Percentiles),
  hedge_after: nullable(Type.Number(), {
    description:
      'Milliseconds without a first part after which another endpoint is tried beside it; ' +
      'null if none is',
  }),
  sound_tool_calls: nullable(Type.Object({ lower: Type.Number(), upper: Type.Number() }), {
    description:
      'The interval of the share of a day’s answers to calls with tools that call them as they ' +
      'were offered; null for fewer than twenty',
  }),
  session: Type.Boolean({ description: 'Whether it serves the call’s session' }),
  probability: nullable(Type.Number({ minimum: 0, maximum: 1 }), {
    description:
      'The probability to be tried first, before the order is drawn; null if it is not drawn, ' +
      'or models were drawn too',
  }),
  ignored_parameters: Type.Array(Type.String()),
})
export type ExplainedEndpoint = Static<typeof Endpoint>

const Dropped = Type.Object({
  provider: Type.String(),
  model: Type.String(),
  is_byok: Type.Boolean(),
  excluded_by: Type.String(),
  reason: Type.String(),
  guardrail: nullable(Type.Object({ id: Type.String(), field: Type.String() })),
})
export type ExplainedDrop = Static<typeof Dropped>

const Refusal = Type.Object({
  code: Type.Integer(),
  message: Type.String(),
  metadata: Type.Record(Type.String(), Type.Unknown()),
})

/**
 * What would become of a call, and why. What is unknown because the call would be refused earlier
 * is empty or null.
 */
export const Explanation = Type.Object({
  workspace: Type.Object({ id: Type.String(), slug: nullable(Type.String()) }),
  key: nullable(Type.Object({ hash: Type.String(), name: Type.String(), label: Type.String() })),
  policy: Type.Object({
    guardrails: Type.Array(Guardrail),
    regions: Type.Array(oneOf(...REGIONS)),
    filters: Type.Array(Filter),
    limits: Type.Array(Limit),
    tree: Type.Object(
      { calls: Type.Integer(), at_once: Type.Integer(), depth: Type.Integer() },
      { description: 'What the call may lead to: calls of providers, at once, and how deep' },
    ),
  }),
  region: nullable(oneOf(...REGIONS), {
    description: 'The region of the address that the call used',
  }),
  preset: nullable(
    Type.Object({ id: Type.String(), slug: Type.String(), version: Type.Integer() }),
  ),
  requested: Type.Array(Type.String()),
  models: Type.Array(Type.String({ description: 'What the requested names stand for' })),
  strategy: nullable(Type.String()),
  stages: Type.Array(
    Type.Object(
      { type: Type.String(), name: Type.String(), summary: Type.Optional(Type.String()) },
      open,
    ),
  ),
  endpoints: Type.Array(Endpoint, { description: 'In the order in which they would be tried' }),
  dropped: Type.Array(Dropped),
  set_aside: nullable(Type.Object({ credits: nullable(Usd), byok: nullable(Usd) }), {
    description:
      'What is set aside for the call while it runs, for the gateway’s credentials and for the ' +
      'caller’s own',
  }),
  error: nullable(Refusal, {
    description: 'The error of the call, if it would be refused before a provider is called',
  }),
})
export type Explanation = Static<typeof Explanation>
