import { type Static, Type } from '@sinclair/typebox'
import { GatewayError, invalid } from '../../base/errors.ts'
import type { Json } from '../../base/json.ts'
import { listNearest } from '../../base/nearest.ts'
import {
  closed,
  closeSchema,
  LONGEST_NAME,
  list,
  Name,
  oneOf,
  open,
  optional,
  SomeName,
} from '../../base/schema-builders.ts'
import type { CallBase, TextCall } from '../../language/call.ts'
import { type Cutoffs, PERCENTILES, type RoutingPreferences } from '../../language/routing.ts'
import { hashUser } from '../../limits/call-budgets.ts'
import type { Actor } from '../../resources/actor.ts'
import { findProviderSlugs } from '../../resources/providers/names.ts'
import { getDefaultModel } from '../../resources/workspaces.ts'
import type { CallContext } from './dialect.ts'
import { PLUGIN_ENTRIES } from './plugin-entries.ts'
import { AnyObject } from './schema.ts'
import type { DialectWorld } from './world.ts'

const IDS = PLUGIN_ENTRIES.map(({ properties }) => properties.id.const)
const OTHER_ID = `^(?!(${IDS.join('|')})$).`

/**
 * An entry of a body's `plugins`. Its fields depend on its `id` (wire reference C.4), and others are
 * refused: here, or by the plugin that has no schema. `readPlugins` refuses an unknown `id`.
 */
const Plugin = Type.Union([
  ...PLUGIN_ENTRIES.map(closeSchema),
  Type.Object(
    {
      id: Type.String({ pattern: OTHER_ID, maxLength: LONGEST_NAME }),
      enabled: Type.Optional(Type.Boolean()),
    },
    open,
  ),
])
type Plugin = Json & { id: string; enabled?: boolean }

/**
 * Reads the options of a body's plugins, as a field to spread into the call; empty if there are
 * none. Of two entries with one id the last counts. Throws 400 for a plugin that would have no
 * effect, and the 400 that a plugin throws.
 */
export function readPlugins(
  { plugins, config }: Pick<DialectWorld, 'plugins' | 'config'>,
  entries: unknown[] | null | undefined,
): Pick<CallBase, 'plugins'> {
  const requested: Record<string, unknown> = {}
  for (const [i, entry] of ((entries ?? []) as Plugin[]).entries()) {
    const plugin = plugins.find(({ id }) => id === entry.id)
    if (plugin)
      requested[plugin.id] =
        entry.enabled === false ? null : plugin.readOptions(entry, `plugins.${i}`, config)
    else refuseMissing(plugins, `plugins.${i}.id`)
  }
  return Object.keys(requested).length > 0 ? { plugins: requested } : {}
}

function refuseMissing(plugins: DialectWorld['plugins'], at: string): never {
  const names = plugins.map(plugin => plugin.id).join(', ')
  throw invalid(`${at}: expected one of ${names}, found an unknown plugin`, at)
}

/**
 * The fields that all dialects share: routing, the end user and the session (wire reference C.1 and
 * C.3).
 */

const Price = Type.Union([
  Type.Number({ minimum: 0 }),
  Type.String({ pattern: '^\\d{1,9}(\\.\\d{1,12})?$', maxLength: 22 }),
])
const Cutoff = Type.Union([
  Type.Number({ minimum: 0 }),
  Type.Object(
    Object.fromEntries(PERCENTILES.map(p => [p, optional(Type.Number({ minimum: 0 }))])),
    closed,
  ),
])
const SortKey = oneOf('price', 'throughput', 'latency', 'exacto')

// Each name is compared with all providers. A far longer list would only keep the gateway busy.
const Providers = list(Name, { maxItems: 256 })
const MAX_QUANTIZATIONS = 64
const MAX_PLUGINS = 64
/** The most names of models in one list of a body, of which the gateway tries fewer. */
export const MAX_MODEL_NAMES = 64

/** What a caller may prefer or exclude. A misspelt name would exclude nothing, so it is refused. */
const PREFERENCES = {
  order: optional(Providers),
  only: optional(Providers),
  ignore: optional(Providers),
  allow_fallbacks: optional(Type.Boolean()),
  require_parameters: optional(Type.Boolean()),
  data_collection: optional(oneOf('allow', 'deny')),
  zdr: optional(Type.Boolean()),
  enforce_distillable_text: optional(Type.Boolean()),
  quantizations: optional(list(Name, { maxItems: MAX_QUANTIZATIONS })),
  sort: optional(
    Type.Union([
      SortKey,
      Type.Object({ by: optional(SortKey), partition: optional(oneOf('model', 'none')) }, closed),
    ]),
  ),
  max_price: Type.Optional(
    Type.Object(
      Object.fromEntries(
        ['prompt', 'completion', 'request', 'image', 'audio'].map(p => [p, Type.Optional(Price)]),
      ),
      closed,
    ),
  ),
  preferred_min_throughput: optional(Cutoff),
  preferred_max_latency: optional(Cutoff),
  hedge: optional(
    Type.Union([
      Type.Boolean(),
      Type.Object({ after_ms: optional(Type.Integer({ minimum: 0, maximum: 600_000 })) }, closed),
    ]),
  ),
}

const Preferences = Type.Object(PREFERENCES, closed)

/** The schemas of these fields. */
export const routingFields = {
  models: Type.Optional(list(SomeName, { maxItems: MAX_MODEL_NAMES })),
  preset: optional(Type.String({ minLength: 1, maxLength: 200 })),
  route: optional(oneOf('fallback', 'sort')),
  provider: optional(Preferences),
  plugins: optional(list(Plugin, { maxItems: MAX_PLUGINS })),
  stream: optional(Type.Boolean()),
  user: optional(Type.String({ maxLength: 256 })),
  session_id: optional(Type.String({ maxLength: 256 })),
  trace: optional(AnyObject),
}

/** The preferences of kinds whose providers have options of their own. */
export const providerWithOptions = optional(
  Type.Object({ ...PREFERENCES, options: optional(AnyObject) }, closed),
)

const RoutingFields = Type.Object({ ...routingFields, model: Type.Optional(Name) })
type RoutingFields = Static<typeof RoutingFields>

/** The fields of conversations that calls of other kinds would carry without effect. */
export const CONVERSATION_FIELDS = ['models', 'plugins', 'preset', 'route'] as const

/** Throws 400 for a field that has an effect in conversations only, and for a wish to stream. */
export function refuseConversationFields(body: object): void {
  const fields: Record<string, unknown> = { ...body }
  const field = CONVERSATION_FIELDS.find(name => fields[name] != null)
  if (field) throw invalid(`${field}: expected none, as it has no effect here`, field)
  const { stream } = fields
  if (stream != null && stream !== false)
    throw invalid('stream: expected false, as these answers are whole', 'stream')
}

/**
 * Builds the fields that calls in every dialect have. Throws 400 for more models than the gateway
 * tries, and for an empty list of allowed providers.
 */
export function buildCallBase(
  world: DialectWorld,
  actor: Actor,
  body: RoutingFields,
  context: CallContext,
): CallBase {
  const { id, origin, session_id, routingMetadataField: field } = context
  const models = readModels(world, actor, body)
  return {
    id,
    models,
    stream: body.stream ?? false,
    routing: readRouting(world, actor, body),
    user: body.user ? hashUser(actor.workspace_id, body.user) : null,
    ...(body.user ? { endUser: body.user } : {}),
    session_id: body.session_id ?? session_id,
    trace: body.trace ?? null,
    preset_id: null,
    echoUpstreamBody: false,
    ...(body.plugins ? readPlugins(world, body.plugins) : {}),
    origin,
    ...(field === undefined ? {} : { routingMetadata: { field, requestedModel: models[0] ?? '' } }),
  }
}

/** The fields in which a body names models, and a preset. */
export type ModelFields = Pick<RoutingFields, 'model' | 'models' | 'preset'> & {
  provider?: object | null
}

/** How a dialect translates a conversation. */
export type ToCall<Body> = (
  world: DialectWorld,
  actor: Actor,
  body: Body,
  context: CallContext,
) => TextCall

export const PRESET_PREFIX = '@preset/'

/** Translates what names a preset with the one, and what names none as if there were no presets. */
export const attachPreset =
  <Body extends ModelFields>(toCall: ToCall<Body>, toPresetCall: ToCall<Body>): ToCall<Body> =>
  (world, actor, body, context) =>
    body.preset != null || body.model?.includes(PRESET_PREFIX)
      ? toPresetCall(world, actor, body, context)
      : toCall(world, actor, body, context)

const MAX_MODELS = 8

function readModels(
  world: DialectWorld,
  { workspace_id }: Actor,
  { model, models = [] }: RoutingFields,
): string[] {
  if (model !== undefined && models.length === 0) return [model]
  const requested = [...new Set(model === undefined ? models : [model, ...models])]
  if (requested.length > MAX_MODELS)
    throw invalid(`models: expected at most ${MAX_MODELS} models`, 'models')
  return requested.length > 0 ? requested : [getDefaultModel(world, workspace_id)]
}

function readRouting(world: DialectWorld, actor: Actor, body: RoutingFields): RoutingPreferences {
  const sort = readSort(world, actor, body)
  return body.provider ? { ...readRoutingPreferences(world, body.provider), ...sort } : sort
}

function readRoutingPreferences(
  world: DialectWorld,
  provider: Static<typeof Preferences>,
): RoutingPreferences {
  const { order, only, ignore, quantizations, max_price, data_collection, ...switches } = provider
  const preferences: RoutingPreferences = {}
  if (order && order.length > 0) preferences.order = resolveProviderSlugs(world, order)
  if (only) preferences.only = resolveProviderSlugs(world, only)
  if (ignore) preferences.ignore = resolveProviderSlugs(world, ignore)
  if (quantizations) preferences.quantizations = quantizations
  if (max_price)
    preferences.max_price = Object.fromEntries(
      Object.entries(max_price).map(([name, price]) => [name, Number(price)]),
    )
  if (data_collection) preferences.data_collection = data_collection
  if (switches.allow_fallbacks != null) preferences.allow_fallbacks = switches.allow_fallbacks
  if (switches.require_parameters) preferences.require_parameters = true
  if (switches.zdr) preferences.zdr = true
  if (switches.enforce_distillable_text) preferences.enforce_distillable_text = true
  if (switches.preferred_min_throughput != null)
    preferences.preferred_min_throughput = readCutoffs(switches.preferred_min_throughput)
  if (switches.preferred_max_latency != null)
    preferences.preferred_max_latency = readCutoffs(switches.preferred_max_latency)
  if (switches.hedge != null) preferences.hedge = readHedge(switches.hedge)
  if (only?.length === 0)
    throw new GatewayError('invalid_request', 'provider.only: expected at least one provider', {
      metadata: { field: 'provider.only' },
    })
  return preferences
}

function readHedge(
  hedge: boolean | { after_ms?: number | null },
): false | { after_ms: number | null } {
  if (hedge === false) return false
  return { after_ms: hedge === true ? null : (hedge.after_ms ?? null) }
}

// A plain number is a cutoff for the median.
function readCutoffs(cutoff: Static<typeof Cutoff>): Cutoffs {
  if (typeof cutoff === 'number') return { p50: cutoff }
  return Object.fromEntries(
    PERCENTILES.flatMap(name => (cutoff[name] == null ? [] : [[name, cutoff[name]]])),
  )
}

/** `route` is the legacy name of `partition`. */
const PARTITIONS = { fallback: 'model', sort: 'none' } as const

/** Reads how endpoints shall be sorted. */
function readSort(
  { memory: { workspaces } }: DialectWorld,
  { workspace_id }: Actor,
  { provider, route }: RoutingFields,
): RoutingPreferences {
  const { by, partition } =
    typeof provider?.sort === 'string' ? { by: provider.sort } : (provider?.sort ?? {})
  const workspaceSort = workspaces.get(workspace_id)?.default_provider_sort
  const requestedPartition = partition ?? (route ? PARTITIONS[route] : null)
  const preferences: RoutingPreferences = {}
  if (by) preferences.sort = by
  if (requestedPartition) preferences.partition = requestedPartition
  if (workspaceSort) preferences.defaultSort = workspaceSort
  return preferences
}

/**
 * Resolves provider names to slugs. A region, quantization or service tier after a name is kept
 * after each of the slugs that the name stands for.
 */
const resolveProviderSlugs = (world: DialectWorld, names: string[]): string[] =>
  names.flatMap(name => resolveProviderName(world, name))

function resolveProviderName({ catalog }: DialectWorld, name: string): string[] {
  // A name has two suffixes at most: `vertex/europe/priority`.
  for (let end = name.length, left = 3; end !== -1 && left > 0; left--) {
    const suffix = name.slice(end)
    const slugs = findProviderSlugs(catalog.providers.values(), name.slice(0, end))
    if (slugs.length > 0) return slugs.map(slug => slug + suffix)
    end = name.lastIndexOf('/', end - 1)
  }
  return []
}

/**
 * Returns the unknown fields of a body, which go on to the provider; none is usual. Throws 400 for a
 * misspelt field that bounds a call or protects what is in it, as it would bound nothing, and for a
 * field of another API's shape (specification, Errors 7): `foreign` has what is expected in its place.
 */
export function readExtraFields(
  body: object,
  known: Set<string>,
  foreign: Readonly<Record<string, string>> = NONE,
): Json {
  const extra: Json = {}
  for (const name in body) {
    if (known.has(name)) continue
    if (Object.hasOwn(foreign, name) && body[name as keyof typeof body] != null)
      throw invalid(`${name}: expected ${foreign[name]}`, name)
    refuseMisspelt(name)
    extra[name] = body[name as keyof typeof body]
  }
  return extra
}

const NONE = {}

function refuseMisspelt(name: string): void {
  if (OWN_NAMES.has(name)) return
  const [meant] = listNearest(name, PROTECTING, name.length > 7 ? 2 : 1)
  if (meant !== undefined)
    throw invalid(`${name}: expected no such field; did you mean "${meant}"?`, name)
}

const PROTECTING = [
  ...['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'max_tool_calls'],
  ...['provider', 'plugins', 'models', 'stop_server_tools_when'],
]

/** Names near to these that other servers have, for something else or in another spelling. */
const OWN_NAMES = new Set([
  // vLLM and SGLang.
  'min_tokens',
  // Google, Bedrock and AI SDKs.
  ...['maxTokens', 'maxOutputTokens', 'maxCompletionTokens', 'maxToolCalls'],
  // Of other APIs than the call's own.
  ...['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'max_tool_calls'],
])
