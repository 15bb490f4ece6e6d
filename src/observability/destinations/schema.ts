import { type Static, Type } from '@sinclair/typebox'
import { PageQuery, pageQuery } from '../../base/pages.ts'
import { closed, oneOf, optional, Uuid } from '../../base/schema-builders.ts'
import { DESTINATION_TYPES } from './kind.ts'

const DestinationName = Type.String({ minLength: 1, maxLength: 255 })

/** The fields of a call that filter rules read, and whether they are numbers. */
export const FILTER_FIELDS = {
  model: 'text',
  provider: 'text',
  session_id: 'text',
  user_id: 'text',
  api_key_name: 'text',
  finish_reason: 'text',
  input: 'text',
  output: 'text',
  total_cost: 'number',
  total_tokens: 'number',
  prompt_tokens: 'number',
  completion_tokens: 'number',
} as const
export type FilterField = keyof typeof FILTER_FIELDS

const FIELD_NAMES = Object.keys(FILTER_FIELDS) as FilterField[]

const FilterRule = Type.Object(
  {
    field: oneOf(...FIELD_NAMES),
    operator: oneOf(
      ...(['equals', 'not_equals', 'contains', 'not_contains', 'regex', 'starts_with'] as const),
      ...(['ends_with', 'gt', 'lt', 'gte', 'lte', 'exists', 'not_exists'] as const),
    ),
    value: Type.Optional(Type.Union([Type.String({ maxLength: 1_000 }), Type.Number()])),
  },
  closed,
)
export type FilterRule = Omit<Static<typeof FilterRule>, 'field'> & { field: FilterField }

const FilterRuleGroup = Type.Object(
  {
    logic: Type.Optional(oneOf('and', 'or')),
    rules: Type.Array(FilterRule, { minItems: 1, maxItems: 50 }),
  },
  closed,
)

/** Which calls are told: those that match any of the groups (wire reference G.3). */
export const FilterRules = Type.Object(
  {
    enabled: Type.Optional(Type.Boolean()),
    groups: Type.Array(FilterRuleGroup, { maxItems: 20 }),
  },
  closed,
)
export type FilterRules = Static<typeof FilterRules>

/** The settings of a destination that both creation and change accept. */
export const CHANGEABLE = {
  api_key_hashes: optional(
    Type.Array(Type.String({ pattern: '^[a-f0-9]{64}$', maxLength: 64 }), {
      minItems: 1,
      maxItems: 100,
    }),
  ),
  broadcast_generation_cost: Type.Optional(Type.Boolean()),
  broadcast_generation_identity: Type.Optional(Type.Boolean()),
  broadcast_generation_request_context: Type.Optional(Type.Boolean()),
  enabled: Type.Optional(Type.Boolean()),
  filter_rules: optional(FilterRules),
  privacy_mode: Type.Optional(Type.Boolean()),
  sampling_rate: Type.Optional(Type.Number({ minimum: 0.0001, maximum: 1 })),
  regions: Type.Optional(
    Type.Array(oneOf('global', 'europe', 'us', 'eu'), { minItems: 1, maxItems: 4 }),
  ),
}

/** The kind of the destination says which fields there are, and their lengths. */
const AnyConfig = Type.Record(Type.String({ maxLength: 64 }), Type.Unknown(), { maxProperties: 32 })

/** The body of E7, `POST /observability/destinations`. */
export const NewDestination = Type.Object(
  {
    ...CHANGEABLE,
    config: AnyConfig,
    name: DestinationName,
    type: oneOf(...DESTINATION_TYPES),
    workspace_id: Type.Optional(Uuid),
  },
  closed,
)
export type NewDestination = Static<typeof NewDestination>

/** The body of `PATCH /observability/destinations/{id}`. Its type and workspace cannot change. */
export const DestinationChange = Type.Object(
  { ...CHANGEABLE, config: Type.Optional(AnyConfig), name: Type.Optional(DestinationName) },
  closed,
)
export type DestinationChange = Static<typeof DestinationChange>

/** The query of `GET /observability/destinations`. */
export const DestinationQuery = Type.Object({
  ...PageQuery.properties,
  workspace_id: Type.Optional(Uuid),
})
export type DestinationQuery = Static<typeof DestinationQuery>

/** How failed deliveries are listed. */
export const FailureQuery = pageQuery(100)
export type FailureQuery = Static<typeof FailureQuery>
