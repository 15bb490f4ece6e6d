import { type TSchema, Type } from '@sinclair/typebox'
import { closed, list, oneOf, optional, SomeName } from '../../base/schema-builders.ts'
import { FUSION_PRESETS } from '../../config/tools.ts'
import { COST_TIERS } from '../../language/routing.ts'

/** The entries of a body's `plugins` that have options (wire reference C.4). */

/** The most turns with tools of each model that fusion asks. */
const MAX_STEPS = 16

/** The fields that the tool and the plugin share. */
export const FUSION_FIELDS = {
  analysis_models: optional(list(SomeName, { minItems: 1, maxItems: 8 })),
  model: optional(SomeName),
  max_tool_calls: optional(Type.Integer({ minimum: 1, maximum: MAX_STEPS })),
  tools: optional(
    list(
      Type.Object(
        {
          type: SomeName,
          parameters: optional(Type.Record(Type.String(), Type.Unknown(), { maxProperties: 64 })),
        },
        closed,
      ),
      { maxItems: 8 },
    ),
  ),
}

export const Fusion = Type.Object(
  {
    id: Type.Literal('fusion'),
    enabled: Type.Optional(Type.Boolean()),
    preset: optional(oneOf(...FUSION_PRESETS)),
    ...FUSION_FIELDS,
  },
  closed,
)

export const FileParser = Type.Object(
  {
    id: Type.Literal('file-parser'),
    enabled: Type.Optional(Type.Boolean()),
    pdf: optional(
      Type.Object(
        { engine: optional(oneOf('native', 'cloudflare-ai', 'pdf-text', 'mistral-ocr')) },
        closed,
      ),
    ),
  },
  closed,
)

export const ContextCompression = Type.Object(
  {
    id: Type.Literal('context-compression'),
    enabled: Type.Optional(Type.Boolean()),
    engine: optional(oneOf('middle-out')),
  },
  closed,
)

const Patterns = optional(Type.Array(Type.String({ maxLength: 1024 }), { maxItems: 1024 }))
const optionFields = {
  enabled: Type.Optional(Type.Boolean()),
  allowed_models: Patterns,
  excluded_models: Patterns,
  cost_tier: optional(oneOf(...COST_TIERS)),
  cost_quality_tradeoff: optional(Type.Integer({ minimum: 0, maximum: 10 })),
}

/** The auto router's entry in a body's `plugins`. */
export const AutoRouter = Type.Object(
  { id: Type.Literal('auto-router'), ...optionFields, pin_model: optional(Type.Boolean()) },
  closed,
)
export const AutoBetaRouter = Type.Object(
  { id: Type.Literal('auto-beta-router'), ...optionFields },
  closed,
)

export const ParetoRouter = Type.Object(
  {
    id: Type.Literal('pareto-router'),
    enabled: Type.Optional(Type.Boolean()),
    max_price: optional(Type.Number({ minimum: 0, maximum: 1_000_000 })),
    min_coding_score: optional(Type.Number({ minimum: 0, maximum: 1 })),
    price_source: optional(oneOf('prompt', 'weighted_avg')),
  },
  closed,
)

/** How `switchyard` picks a model. The public service names the algorithms and no more. */
export const ALGORITHMS = [
  'capability',
  'stage',
  'auto',
  'random',
  'composite',
  'passthrough',
] as const

export const SwitchyardRouter = Type.Object(
  {
    id: Type.Literal('switchyard-router'),
    enabled: Type.Optional(Type.Boolean()),
    algorithm: optional(oneOf(...ALGORITHMS)),
  },
  closed,
)

/** Every entry with options. Those of other plugins have none, or their plugin checks them. */
export const PLUGIN_ENTRIES: TSchema[] = [
  Fusion,
  FileParser,
  ContextCompression,
  AutoRouter,
  AutoBetaRouter,
  ParetoRouter,
  SwitchyardRouter,
]
