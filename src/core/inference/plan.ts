import type { OpenedKey } from '../catalog/byok/opened.ts'
import type { Endpoint, Model } from '../catalog/models.ts'
import { GatewayError } from '../errors.ts'
import type { Gateway } from '../gateway.ts'
import { attosPerToken } from '../ledger/money.ts'
import type { Rule } from '../policy/rules.ts'
import { protocols } from '../protocols/registry.ts'
import { BYOK_ONLY, turnsOf } from './byok.ts'
import type { CallBase, Kind, RoutingPreferences, Work } from './call.ts'
import { kinds } from './kinds.ts'

/** The endpoints to try, in order, and why the others were dropped. */
export interface Plan {
  endpoints: Endpoint[]
  dropped: Dropped[]
}

export interface Dropped {
  endpoint: Endpoint
  /** The word for it in `error.availability.excluded_by` (wire reference L.3). */
  by: string
  /** What of which guardrail has dropped it, if one has. */
  rule?: Rule
}

/** Says of one endpoint that it may serve this call, or which of the call's wishes forbids it. */
type Filter = (endpoint: Endpoint, call: CallBase) => string | true

/** What is asked of an endpoint whatever the kind of work. The kind's own wishes come after these. */
const FILTERS: Filter[] = [canBeCalled, chosenByCaller, keepsNoData, withinPrice]

/**
 * Who may serve the call: the models in the order wanted, each with its endpoints in the caller's order; `own` are the provider keys that
 * may be used for it, which have their turn before the gateway's, and no endpoint is among them that one of the `rules` excludes.
 * Throws 400 for a model that is not in the catalogue or does another kind of work, and 404 when a wish or a
 * guardrail excludes the last endpoint, naming it.
 */
export function planRoute<K extends Kind>(
  gateway: Gateway,
  kind: K,
  call: Work[K]['call'],
  own: OpenedKey[] = [],
  rules: Rule[] = [],
): Plan {
  const models = call.models.map(slug => modelOf(gateway, kind, slug))
  const dropped: Dropped[] = []
  const endpoints = models.flatMap(model => {
    const turns = turnsOf(gateway, model, own, dropped).map(endpoints =>
      ordered(allowed(endpoints, kind, call, rules, dropped), call.routing),
    )
    return picked(turns.flat(), call.routing)
  })
  if (endpoints.length === 0) throw nobodyLeft(kind, call, dropped)
  return { endpoints, dropped }
}

function modelOf(gateway: Gateway, kind: Kind, slug: string): Model {
  const model = gateway.catalog.models.get(slug)
  if (!model) throw unknownModel(gateway, slug)
  const { isGivenBy, gives } = kinds[kind]
  if (!isGivenBy(model.output_modalities)) throw wrongEndpoint(slug, `gives ${model.output_modalities.join(' and ')}, not ${gives}`)
  return model
}

/** The model is there, but asked at the wrong door. */
const wrongEndpoint = (slug: string, why: string) => unavailableModel('wrong_endpoint', slug, `${slug} ${why}`)

/** A model as it cannot be had (wire reference L.3). */
const unavailableModel = (code: string, slug: string, message: string) =>
  new GatewayError('invalid_request', message, {
    metadata: { field: 'model', availability: { code, retryable: false, requested_models: [slug] } },
  })

// A variant that is a model of its own is in the catalogue; what another one asks for would not be done.
function unknownModel({ catalog }: Gateway, slug: string): GatewayError {
  const said = slug.slice(0, LONGEST_SLUG)
  const [, base = '', variant = ''] = /^(.+)(:[^:]*)$/.exec(said) ?? []
  const message = catalog.models.has(base)
    ? `${base} has no variant ${variant} here: expected ${base}`
    : `${JSON.stringify(said)} is not a valid model ID`
  return unavailableModel('model_not_found', said, message)
}

/** No more of it is repeated. */
const LONGEST_SLUG = 200

function allowed<K extends Kind>(endpoints: Endpoint[], kind: K, call: Work[K]['call'], rules: Rule[], dropped: Dropped[]): Endpoint[] {
  return endpoints.filter(endpoint => {
    const by = forbidding(endpoint, kind, call)
    if (by !== undefined) dropped.push({ endpoint, by })
    return by === undefined && isAllowedBy(rules, endpoint, dropped)
  })
}

// After the caller's own wishes, so that a guardrail is named exactly where the call would have gone somewhere without it.
function isAllowedBy(rules: Rule[], endpoint: Endpoint, dropped: Dropped[]): boolean {
  for (const rule of rules) {
    if (!rule.excludes(endpoint)) continue
    dropped.push({ endpoint, by: rule.by, rule })
    return false
  }
  return true
}

/** How the endpoint's provider speaks may have no words for this kind of work. */
const WRONG_ENDPOINT = 'wrong_endpoint'

function forbidding<K extends Kind>(endpoint: Endpoint, kind: K, call: Work[K]['call']): string | undefined {
  if (!protocols[kind][endpoint.protocol]) return WRONG_ENDPOINT
  for (const filter of FILTERS) {
    const verdict = filter(endpoint, call)
    if (verdict !== true) return verdict
  }
  const verdict = kinds[kind].serves(call, endpoint)
  return verdict === true ? undefined : verdict
}

// The sort is stable: endpoints that the caller did not name keep the catalogue's order.
function ordered(endpoints: Endpoint[], { order }: RoutingPreferences): Endpoint[] {
  if (!order) return endpoints
  const rank = ({ provider }: Endpoint) => order.indexOf(provider.slug)
  const named = endpoints.filter(endpoint => rank(endpoint) !== -1).sort((a, b) => rank(a) - rank(b))
  return [...named, ...endpoints.filter(endpoint => rank(endpoint) === -1)]
}

/** Without fallbacks the first that the caller left to us is the only one. */
const picked = (endpoints: Endpoint[], { order, allow_fallbacks }: RoutingPreferences) =>
  allow_fallbacks === false && !order ? endpoints.slice(0, 1) : endpoints

function canBeCalled({ provider }: Endpoint) {
  return provider.configured || NOT_CONFIGURED
}

function chosenByCaller({ provider: { slug } }: Endpoint, { routing: { only, ignore, order, allow_fallbacks } }: CallBase) {
  const others = only?.includes(slug) === false || ignore?.includes(slug) === true
  const behind = allow_fallbacks === false && order?.includes(slug) === false
  return others || behind ? 'allowed_providers' : true
}

function keepsNoData({ data_policy }: Endpoint, { routing: { data_collection, zdr } }: CallBase) {
  if (zdr && data_policy.retention_days !== 0) return 'data_policy:zdr'
  return data_collection === 'deny' && data_policy.training ? 'data_policy:training' : true
}

function withinPrice({ prices, quantization }: Endpoint, { routing: { max_price, quantizations } }: CallBase) {
  if (quantizations && !quantizations.includes(quantization)) return 'quantization'
  if (!max_price) return true
  const { prompt, completion } = max_price
  const tooDear = (most: number | undefined, price: bigint | undefined) =>
    most !== undefined && (price === undefined || price > attosPerToken(most))
  return tooDear(prompt, prices?.prompt) || tooDear(completion, prices?.completion) ? 'max_price' : true
}

/** Ours, not the public list's: there, every provider is configured. */
const NOT_CONFIGURED = 'not_configured'

/** In the order in which they are looked at: the last that was met is the one that was in the way. */
const WISHES: Record<string, string> = {
  [BYOK_ONLY]: 'a provider key of the workspace keeps all others away, and may not be used for this call itself',
  allowed_providers: 'provider.only, provider.ignore and provider.order leave no provider that serves it',
  'data_policy:zdr': 'provider.zdr asks for zero data retention',
  'data_policy:training': 'provider.data_collection asks for providers that do not train on data',
  quantization: 'provider.quantizations names none that is served',
  max_price: 'provider.max_price is below every price',
  require_parameters: 'provider.require_parameters asks for parameters that are not supported',
  context_length: 'max_tokens is not below the context length',
}

function nobodyLeft(kind: Kind, call: CallBase, dropped: Dropped[]): GatewayError {
  const [slug = ''] = call.models
  if (dropped.length > 0 && dropped.every(({ by }) => by === WRONG_ENDPOINT))
    return wrongEndpoint(slug, `is at no provider that can be asked for ${kinds[kind].gives}`)
  const excluded_by = [...new Set(dropped.map(one => one.by))]
  const rules = [...new Set(dropped.flatMap(({ rule }) => rule ?? []))]
  if (rules.length > 0) return withheld(slug, rules, excluded_by)
  const last = Object.keys(WISHES).findLast(word => excluded_by.includes(word))
  if (last === undefined) return new GatewayError('not_found', unservedBy(call, dropped), { metadata: { excluded_by } })
  const message = `No endpoints found for ${call.models[0]}: ${WISHES[last] ?? last}${last === 'allowed_providers' ? served(dropped) : ''}.`
  const outOfRange = excluded_by.length === 1 && last === 'context_length'
  if (outOfRange) return new GatewayError('max_tokens_exceeded', message, { metadata: { field: 'max_tokens', excluded_by } })
  return new GatewayError('not_found', message, { metadata: { excluded_by } })
}

function withheld(slug: string, rules: Rule[], excluded_by: string[]): GatewayError {
  const fields = [...new Set(rules.map(({ field }) => field))].join(' and ')
  const guardrails = rules.map(({ guardrail_id, field }) => ({ guardrail_id, field }))
  const message = `No endpoints found for ${slug}: excluded by ${fields} of ${rules.length === 1 ? 'a guardrail' : 'guardrails'}.`
  return new GatewayError('not_found', message, { metadata: { excluded_by, guardrails } })
}

// Who was asked for may be misspelled, or not be configured.
function served(dropped: Dropped[]): string {
  const wanted = dropped[0]?.endpoint.model
  const others = dropped.filter(({ endpoint }) => endpoint.model === wanted && endpoint.provider.configured)
  return others.length > 0 ? `; here it is served by ${slugsOf(others).join(', ')}` : ''
}

const slugsOf = (dropped: Dropped[]) => [...new Set(dropped.map(({ endpoint }) => endpoint.provider.slug))]

function unservedBy(call: CallBase, dropped: Dropped[]): string {
  const names = slugsOf(dropped)
  if (names.length === 0) return `No endpoints found for ${call.models[0]}.`
  const none = names.length === 1 ? 'which is not configured' : 'and none of them is configured'
  return `No endpoints found for ${call.models[0]}: it is served by ${names.join(', ')}, ${none}.`
}
