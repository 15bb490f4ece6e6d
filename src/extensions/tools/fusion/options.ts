import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../../../base/errors.ts'
import type { Json } from '../../../base/json.ts'
import { closed, oneOf, open, optional } from '../../../base/schema-builders.ts'
import type { Config } from '../../../config.ts'
import type { CacheControl } from '../../../language/message.ts'
import type { Params } from '../../../language/params.ts'
import type { ServerToolRequest, ToolReading } from '../../../language/server-tools.ts'
import { FUSION_FIELDS } from '../../../translation/dialects/plugin-entries.ts'
import { INNER_PARAMETERS, readInnerOptions } from '../inner-call.ts'

/** The turns with tools of each model that fusion asks, unless it is told (reference C.4). */
const DEFAULT_STEPS = 4

const { max_completion_tokens, temperature, reasoning } = INNER_PARAMETERS

/** The parameters of the tool (wire reference D.6). */
export const FusionParameters = Type.Object(
  {
    ...FUSION_FIELDS,
    ...{ max_completion_tokens, temperature, reasoning },
    cache_control: optional(
      Type.Object({ type: Type.Literal('ephemeral'), ttl: optional(oneOf('5m', '1h')) }, closed),
    ),
  },
  closed,
)

const Fields = Type.Object(FUSION_FIELDS, open)

/** Which models are asked side by side, and how; null where the parameters say nothing. */
export interface FusionOptions {
  analysis_models: string[] | null
  /** The judge. */
  model: string | null
  max_tool_calls: number
  /** Null for those that search and read the web, as far as they work here. */
  tools: ServerToolRequest[] | null
  params: Params
  cache_control: CacheControl | null
  /** Where the parameters stand in the body. */
  path: string
}

/**
 * Reads the parameters of the tool, or the fields that the plugin has of them. Throws 400 naming the
 * field, also for a model that is named twice and a tool that a panel cannot have.
 */
export function readFusionOptions(
  parameters: Json,
  path: string,
  reading?: ToolReading,
): FusionOptions {
  const { analysis_models, max_tool_calls, tools } = parameters as Static<typeof Fields>
  const { cache_control } = parameters as Static<typeof FusionParameters>
  checkNames(analysis_models ?? [], `${path}.analysis_models`)
  const { model, params } = readInnerOptions(parameters, path)
  return {
    ...{ model, params, path },
    analysis_models: analysis_models ?? null,
    max_tool_calls: max_tool_calls ?? DEFAULT_STEPS,
    tools: tools?.map((tool, i) => readTool(tool, `${path}.tools.${i}`, reading)) ?? null,
    cache_control: cache_control
      ? { type: 'ephemeral', ...(cache_control.ttl ? { ttl: cache_control.ttl } : {}) }
      : null,
  }
}

function checkNames(names: string[], field: string): void {
  const at = names.findIndex((name, i) => names.indexOf(name) < i)
  if (at !== -1)
    throw invalid(`${field}.${at}: expected each model once, found it twice`, `${field}.${at}`)
}

/** The tools that a panel cannot have: itself, and what its client would have to run. */
const WITHHELD = ['fusion', 'apply_patch']

function readTool(entry: unknown, field: string, reading?: ToolReading): ServerToolRequest {
  const request = reading?.readTool(entry, field)
  if (!request || WITHHELD.includes(request.name))
    throw invalid(`${field}.type: expected a tool that the gateway runs for a panel`, field)
  return request
}

/** Returns the models that are asked side by side: of the call, or of the config. */
export const listPanel = (
  { config }: { config: Config },
  { analysis_models }: FusionOptions,
): string[] => analysis_models ?? config.server_tools.fusion.analysis_models
