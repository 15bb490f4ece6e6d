import { type Static, Type } from '@sinclair/typebox'
import { PERIODS } from '../../kernel/clock.ts'
import { nullable, oneOf, open } from '../../kernel/schema-builders.ts'
import { REGIONS } from '../../language/region.ts'

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
    description: 'Null for one of another workspace, whose filters are not told either',
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
      description: 'How often it is in this prompt; null where it was not looked for',
    }),
  ),
})

const Limit = Type.Object({
  account: Type.String({
    description: 'Whose spending is counted: a key, a member, a workspace, or all',
  }),
  limit_usd: nullable(Usd, { description: 'Null where more is counted than the asker manages' }),
  remaining_usd: nullable(Usd),
  period: nullable(oneOf(...PERIODS)),
  include_byok: Type.Boolean({
    description: 'Whether what goes through the caller’s own provider keys counts',
  }),
  pays: nullable(oneOf('yes', 'less', 'no'), {
    description:
      '`less`: with a smaller max_tokens; null where it is not known what the call may come to',
  }),
  refusal: Type.String({ description: 'What a caller is told whom it stops' }),
})

const Cost = Type.Object({
  usd: Usd,
  prompt: Usd,
  completion: Usd,
  prompt_tokens: Type.Integer({ description: 'As they are expected, rather too many' }),
  completion_tokens: Type.Integer({
    description: 'As many as the answer may have, of all its choices',
  }),
  bounded_by: oneOf('call', 'endpoint', 'limit', 'config'),
})

const Endpoint = Type.Object({
  provider: Type.String({ description: 'Its slug' }),
  provider_name: Type.String(),
  model: Type.String(),
  upstream_model: Type.String({ description: 'The provider’s own name of the model' }),
  region: nullable(Type.String()),
  quantization: Type.String(),
  is_byok: Type.Boolean(),
  pricing: Type.Record(Type.String(), Type.Unknown(), { description: 'As GET /models shows it' }),
  estimated_cost: nullable(Cost),
  most: nullable(Usd),
  rests: nullable(
    Type.Object({ until: Type.String(), because: oneOf('failures', 'asked_to_wait') }),
  ),
  latency: nullable(Percentiles),
  throughput: nullable(Percentiles),
  hedge_after: nullable(Type.Number(), {
    description:
      'Milliseconds without a first part after which another one is asked beside it; null where none is',
  }),
  sound_tool_calls: nullable(Type.Object({ lower: Type.Number(), upper: Type.Number() }), {
    description:
      'Between which shares of a day’s answers to calls with tools call them as they were offered; null for fewer than twenty',
  }),
  session: Type.Boolean({ description: 'Whether the call’s session is at it' }),
  chance: nullable(Type.Number({ minimum: 0, maximum: 1 }), {
    description:
      'To be asked first, before the order is drawn; null where it is not drawn, or models were drawn too',
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
  }),
  region: nullable(oneOf(...REGIONS), { description: 'By which way the call comes in' }),
  preset: nullable(
    Type.Object({ id: Type.String(), slug: Type.String(), version: Type.Integer() }),
  ),
  requested: Type.Array(Type.String()),
  models: Type.Array(Type.String({ description: 'What the names stand for that were asked for' })),
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
      'What is kept for the call while it runs, through the gateway’s credentials and through the caller’s own',
  }),
  error: nullable(Refusal, {
    description:
      'What the call would be answered, where it would be refused before a provider is asked',
  }),
})
export type Explanation = Static<typeof Explanation>
