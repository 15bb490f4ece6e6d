import { type Static, Type } from '@sinclair/typebox'
import { slugsOfCalled } from '../catalog/providers/called.ts'
import { GatewayError, invalid } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { defaultModel } from '../identity/workspaces.ts'
import { oneOf, open, optional } from '../kernel/schema-builders.ts'
import type { CallBase } from '../language/call.ts'
import { type Cutoffs, PERCENTILES, type RoutingPreferences } from '../language/routing.ts'
import type { CallContext } from './dialect.ts'
import { Plugin, readPlugins } from './plugins.ts'
import { Anything } from './schema.ts'
import type { DialectWorld } from './world.ts'

/**
 * The fields that all dialects share: routing, the end user and the session (wire reference C.1 and
 * C.3).
 */

const Price = Type.Union([
  Type.Number({ minimum: 0 }),
  Type.String({ pattern: '^\\d{1,9}(\\.\\d{1,12})?$' }),
])
const Cutoff = Type.Union([
  Type.Number({ minimum: 0 }),
  Type.Object(
    Object.fromEntries(PERCENTILES.map(p => [p, optional(Type.Number({ minimum: 0 }))])),
    open,
  ),
])
const SortKey = oneOf('price', 'throughput', 'latency', 'exacto')

// Each name is compared with all providers. A far longer list would only keep the gateway busy.
const Providers = Type.Array(Type.String(), { maxItems: 256 })

const ProviderPreferences = Type.Object(
  {
    order: optional(Providers),
    only: optional(Providers),
    ignore: optional(Providers),
    allow_fallbacks: optional(Type.Boolean()),
    require_parameters: optional(Type.Boolean()),
    data_collection: optional(oneOf('allow', 'deny')),
    zdr: optional(Type.Boolean()),
    enforce_distillable_text: optional(Type.Boolean()),
    quantizations: optional(Type.Array(Type.String())),
    sort: optional(
      Type.Union([
        SortKey,
        Type.Object({ by: optional(SortKey), partition: optional(oneOf('model', 'none')) }, open),
      ]),
    ),
    max_price: Type.Optional(
      Type.Object(
        Object.fromEntries(
          ['prompt', 'completion', 'request', 'image', 'audio'].map(p => [p, Type.Optional(Price)]),
        ),
        open,
      ),
    ),
    preferred_min_throughput: optional(Cutoff),
    preferred_max_latency: optional(Cutoff),
    hedge: optional(
      Type.Union([
        Type.Boolean(),
        Type.Object({ after_ms: optional(Type.Integer({ minimum: 0, maximum: 600_000 })) }, open),
      ]),
    ),
  },
  open,
)

/** The schemas of these fields. */
export const routing = {
  models: Type.Optional(Type.Array(Type.String({ minLength: 1 }))),
  preset: optional(Type.String({ minLength: 1, maxLength: 200 })),
  route: optional(oneOf('fallback', 'sort')),
  provider: optional(ProviderPreferences),
  plugins: optional(Type.Array(Plugin)),
  stream: optional(Type.Boolean()),
  user: optional(Type.String({ maxLength: 256 })),
  session_id: optional(Type.String({ maxLength: 256 })),
  trace: optional(Anything),
}

const Routing = Type.Object({ ...routing, model: Type.Optional(Type.String()) })
type Routing = Static<typeof Routing>

/**
 * Builds the fields that calls in every dialect have. Throws 400 for more models than the gateway
 * tries, and for an empty list of allowed providers.
 */
export function callBase(
  gateway: DialectWorld,
  actor: Actor,
  body: Routing,
  context: CallContext,
): CallBase {
  const { id, origin, session_id, routingMetadata: name } = context
  const models = modelsOf(gateway, actor, body)
  return {
    id,
    models,
    stream: body.stream ?? false,
    routing: { ...routingOf(gateway, body.provider ?? {}), ...sortOf(gateway, actor, body) },
    user: body.user ? hashUser(actor.workspace_id, body.user) : null,
    session_id: body.session_id ?? session_id,
    trace: body.trace ?? null,
    preset_id: null,
    echoUpstreamBody: false,
    ...(body.plugins ? readPlugins(gateway, body.plugins) : {}),
    origin,
    ...(name === undefined ? {} : { routingMetadata: { name, requested: models[0] ?? '' } }),
  }
}

/**
 * Hashes the caller's end user for providers: stable within a workspace, and never the name that
 * the caller sent (specification E8, E9).
 */
export function hashUser(workspace_id: string, user: string): string {
  return Bun.CryptoHasher.hash('sha256', `${workspace_id}:${user}`, 'hex')
}

const MOST_MODELS = 8

function modelsOf(
  gateway: DialectWorld,
  { workspace_id }: Actor,
  { model, models = [] }: Routing,
): string[] {
  if (model !== undefined && models.length === 0) return [model]
  const wanted = [...new Set(model === undefined ? models : [model, ...models])]
  if (wanted.length > MOST_MODELS)
    throw invalid(`models: expected at most ${MOST_MODELS} models`, 'models')
  return wanted.length > 0 ? wanted : [defaultModel(gateway, workspace_id)]
}

function routingOf(
  gateway: DialectWorld,
  given: Static<typeof ProviderPreferences>,
): RoutingPreferences {
  const { order, only, ignore, quantizations, max_price, data_collection, ...switches } = given
  const wishes: RoutingPreferences = {}
  if (order && order.length > 0) wishes.order = slugsOf(gateway, order)
  if (only) wishes.only = slugsOf(gateway, only)
  if (ignore) wishes.ignore = slugsOf(gateway, ignore)
  if (quantizations) wishes.quantizations = quantizations
  if (max_price)
    wishes.max_price = Object.fromEntries(
      Object.entries(max_price).map(([name, price]) => [name, Number(price)]),
    )
  if (data_collection) wishes.data_collection = data_collection
  if (switches.allow_fallbacks != null) wishes.allow_fallbacks = switches.allow_fallbacks
  if (switches.require_parameters) wishes.require_parameters = true
  if (switches.zdr) wishes.zdr = true
  if (switches.enforce_distillable_text) wishes.enforce_distillable_text = true
  if (switches.preferred_min_throughput != null)
    wishes.preferred_min_throughput = cutoffsOf(switches.preferred_min_throughput)
  if (switches.preferred_max_latency != null)
    wishes.preferred_max_latency = cutoffsOf(switches.preferred_max_latency)
  if (switches.hedge != null) wishes.hedge = hedgeOf(switches.hedge)
  if (only?.length === 0)
    throw new GatewayError('invalid_request', 'provider.only: expected at least one provider', {
      metadata: { field: 'provider.only' },
    })
  return wishes
}

function hedgeOf(
  wanted: boolean | { after_ms?: number | null },
): false | { after_ms: number | null } {
  if (wanted === false) return false
  return { after_ms: wanted === true ? null : (wanted.after_ms ?? null) }
}

// A plain number is a cutoff for the median.
function cutoffsOf(wanted: Static<typeof Cutoff>): Cutoffs {
  if (typeof wanted === 'number') return { p50: wanted }
  return Object.fromEntries(
    PERCENTILES.flatMap(name => (wanted[name] == null ? [] : [[name, wanted[name]]])),
  )
}

/** `route` is the legacy name of `partition`. */
const PARTITIONS = { fallback: 'model', sort: 'none' } as const

/** Reads how endpoints shall be sorted, as fields to spread into the preferences. */
function sortOf(
  { memory: { workspaces } }: DialectWorld,
  { workspace_id }: Actor,
  { provider, route }: Routing,
) {
  const { by, partition } =
    typeof provider?.sort === 'string' ? { by: provider.sort } : (provider?.sort ?? {})
  const usual = workspaces.get(workspace_id)?.default_provider_sort
  const asked = partition ?? (route ? PARTITIONS[route] : null)
  return {
    ...(by ? { sort: by } : {}),
    ...(asked ? { partition: asked } : {}),
    ...(usual ? { usualSort: usual } : {}),
  }
}

/**
 * Resolves provider names to slugs. A region or quantization after a name is kept after each of the
 * slugs that the name stands for.
 */
const slugsOf = (gateway: DialectWorld, said: string[]): string[] =>
  said.flatMap(name => meantBy(gateway, name))

function meantBy({ catalog }: DialectWorld, name: string): string[] {
  const meant = slugsOfCalled(catalog.providers.values(), name)
  const at = name.lastIndexOf('/')
  if (meant.length > 0 || at === -1) return meant
  return slugsOfCalled(catalog.providers.values(), name.slice(0, at)).map(
    slug => slug + name.slice(at),
  )
}
