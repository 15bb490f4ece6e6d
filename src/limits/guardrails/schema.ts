import { type Static, Type } from '@sinclair/typebox'
import { PERIODS } from '../../base/clock.ts'
import { MAX_USD } from '../../base/money.ts'
import { PageQuery } from '../../base/pages.ts'
import { closed, oneOf, optional, Uuid } from '../../base/schema-builders.ts'
import { REGIONS } from '../../language/call.ts'
import { DIMENSIONS } from '../call-budgets.ts'
import { LABELS } from '../filters/labels.data.ts'
import { MAX_PATTERNS } from '../filters.ts'
import { McpRule } from './mcp-rule.ts'

/** More than anyone lists by hand, and few enough to search through. */
const LONGEST = 1_000
const List = optional(
  Type.Array(Type.String({ minLength: 1, maxLength: 200 }), { minItems: 1, maxItems: LONGEST }),
)
const Flag = optional(Type.Boolean())
const Action = oneOf('redact', 'block', 'flag')
// No more than fits a safe integer, whatever is added to it.
const Most = (description: string) =>
  optional(Type.Integer({ minimum: 1, maximum: 1_000_000_000_000, description }))
const Label = Type.String({ maxLength: 100 })

const Builtin = Type.Object({
  slug: oneOf(...(Object.keys(LABELS) as (keyof typeof LABELS)[])),
  action: Action,
  label: Type.Optional(Label),
  scan_scope: Type.Optional(oneOf('user_only', 'all_messages')),
})

const Pattern = Type.Object({
  // How long a pattern may be depends on what it is: the file about patterns says so.
  pattern: Type.String({ minLength: 1, maxLength: 100_000 }),
  action: Action,
  label: optional(Label),
})

const CallBudget = Type.Object(
  {
    by: oneOf(...DIMENSIONS),
    name: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 256,
        description: 'Which one; each that no other budget names, by itself, when omitted',
      }),
    ),
    limit_usd: Type.Number({ minimum: 0, maximum: MAX_USD }),
    reset_interval: oneOf(...PERIODS),
  },
  closed,
)

/** More than anyone writes down, and few enough to look through with each call. */
export const MOST_CALL_BUDGETS = 200

/**
 * The fields of a guardrail that a body may set, other than name and workspace (wire reference
 * H.1).
 */
export const FIELDS = {
  description: optional(Type.String({ maxLength: 1000 })),
  allowed_data_regions: optional(Type.Array(oneOf(...REGIONS), { minItems: 1, maxItems: LONGEST })),
  allowed_models: List,
  allowed_providers: List,
  ignored_models: List,
  ignored_providers: List,
  mcp: optional(McpRule),
  content_filter_builtins: optional(Type.Array(Builtin, { maxItems: MAX_PATTERNS })),
  content_filters: optional(Type.Array(Pattern, { maxItems: MAX_PATTERNS })),
  filter_output: Type.Optional(Type.Boolean({ description: 'Scan answers too' })),
  filterOutput: Type.Optional(
    Type.Boolean({ description: 'The old spelling of filter_output, read by this version still' }),
  ),
  enable_free_model_publication: Flag,
  enable_free_model_training: Flag,
  enable_paid_model_training: Flag,
  enforce_zdr: Flag,
  enforce_zdr_anthropic: Flag,
  enforce_zdr_google: Flag,
  enforce_zdr_openai: Flag,
  enforce_zdr_other: Flag,
  enforce_zdr_xai: Flag,
  limit_usd: optional(Type.Number({ minimum: 0, maximum: MAX_USD })),
  reset_interval: optional(oneOf(...PERIODS)),
  budgets: optional(
    Type.Array(CallBudget, {
      maxItems: MOST_CALL_BUDGETS,
      description: 'What calls of one end user, tag or model may cost',
    }),
  ),
  include_byok_in_budgets: Type.Optional(Type.Boolean()),
  requests_per_minute: Most('The calls per minute of each that it applies to'),
  tokens_per_minute: Most('The tokens per minute of each that it applies to'),
  concurrent_requests: Most('The concurrent calls of each that it applies to'),
}

const Name = Type.String({ minLength: 1, maxLength: 200 })

/** The body of `POST /guardrails` (E5). */
export const NewGuardrail = Type.Object({
  ...FIELDS,
  name: Name,
  workspace_id: Type.Optional(Uuid),
})
export type NewGuardrail = Static<typeof NewGuardrail>

/** The body of `PATCH /guardrails/{id}`. */
export const GuardrailChange = Type.Object({ ...FIELDS, name: Type.Optional(Name) })
export type GuardrailChange = Static<typeof GuardrailChange>

/** The query of the lists of assignments. */
export const AssignmentQuery = PageQuery
export type AssignmentQuery = Static<typeof AssignmentQuery>

/** The query of `GET /guardrails`. */
export const GuardrailQuery = Type.Object({
  ...PageQuery.properties,
  workspace_id: Type.Optional(Uuid),
})
export type GuardrailQuery = Static<typeof GuardrailQuery>
