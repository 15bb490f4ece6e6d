import { denied, type GatewayError } from '../../base/errors.ts'
import { pickLarger, toAttosPerToken, toAttosPerUnit } from '../../base/money.ts'
import type { CallBase } from '../../language/call.ts'
import type { Block } from '../../language/message.ts'
import type { RoutingPreferences, ServiceTier, SortKey } from '../../language/routing.ts'
import type { Kind, Work } from '../../language/work.ts'
import type { Guardrail } from '../../limits/guardrails/store.ts'
import type { Policy } from '../../limits/policy-world.ts'
import type { Service } from '../../limits/rules.ts'
import { type KnownModels, mayRetainNothing } from '../../limits/zdr.ts'
import type { Endpoint, Model } from '../../resources/models/catalog.ts'
import { buildTierName } from '../../resources/models/view.ts'
import { type Prices, pickPrices } from '../../resources/prices.ts'
import { getDataPolicy } from '../../resources/providers/facts.ts'
import { protocols } from '../../translation/protocols/registry.ts'
import { LARGEST_IMAGE } from '../../translation/tokenizers/prompt.ts'
import type { Costing } from '../kind.ts'
import { kinds } from '../kinds.ts'

/**
 * Returns true if the endpoint may serve this call, or else the word for the constraint that it
 * violates.
 */
type Constraint = (endpoint: Endpoint, call: CallBase, model: Model) => string | true

/** Constraints of every kind of work. Those of one kind are checked after them. */
const CONSTRAINTS: Constraint[] = [
  checkConfigured,
  checkProviderPreferences,
  checkDataPolicy,
  checkDistillable,
  checkQuantization,
]

/** The endpoint's protocol may not support this kind of work. */
export const WRONG_ENDPOINT = 'wrong_endpoint'

/**
 * Finds the constraint of the call that the endpoint violates: the word of `excluded_by` (wire
 * reference L.3). `sort` is the sort key of the model's variant.
 */
export function findViolatedConstraint<K extends Kind>(
  endpoint: Endpoint,
  model: Model,
  kind: K,
  call: Work[K]['call'],
  sort?: SortKey,
): string | undefined {
  const general = findGeneralConstraint(endpoint, model, kind, call, sort)
  if (general !== undefined) return general
  if (listRefusedInputs(model, kind, call).length > 0) return INPUT_MODALITIES
  const verdict = kinds[kind].understanding.checkEndpoint(call, endpoint)
  return verdict === true ? undefined : verdict
}

/**
 * Finds a constraint that an endpoint violates whatever the call contains: of its preferences, its
 * service tier, and what the endpoint is.
 */
export function findGeneralConstraint<K extends Kind>(
  endpoint: Endpoint,
  model: Model,
  kind: K,
  call: Work[K]['call'],
  sort?: SortKey,
): string | undefined {
  if (!protocols[kind][endpoint.protocol]) return WRONG_ENDPOINT
  const requested = kinds[kind].understanding.getServiceTier(call)
  if (isTierExcluded(endpoint, model, { requested, sort, routing: call.routing }))
    return SERVICE_TIER
  for (const checkConstraint of CONSTRAINTS) {
    const verdict = checkConstraint(endpoint, call, model)
    if (verdict !== true) return verdict
  }
  return isTooExpensive(endpoint, model, kind, call) ? 'max_price' : undefined
}

/**
 * Finds the preference of the caller that keeps a call away from this endpoint by who it is or what
 * it keeps, whatever it can do: the word of `excluded_by`.
 */
function findExcludingPreference(endpoint: Endpoint, call: CallBase): string | undefined {
  const ofProvider = checkProviderPreferences(endpoint, call)
  const verdict = ofProvider === true ? checkDataPolicy(endpoint, call) : ofProvider
  return verdict === true ? undefined : verdict
}

/** Who would send a call, and which. */
interface Sender {
  call: CallBase
  policy: Policy
}

/**
 * Checks that a service may be sent a call: guardrails and the caller's `provider` bound it as they
 * bound an endpoint, by its provider and by what it does with data. Throws 403 otherwise.
 */
export function requireService(world: KnownModels, run: Sender, service: Service): void {
  const word = findExclusion(world, run, service)
  if (word !== undefined) throw denyService(service, word)
}

/** Finds what keeps a call from a service: the word of `excluded_by`. */
export function findExclusion(
  world: KnownModels,
  { call, policy }: Sender,
  service: Service,
): string | undefined {
  const endpoint = toEndpoint(service)
  const word = findExcludingPreference(endpoint, call)
  if (word !== undefined) return word
  const rule = policy.rules.find(
    ({ field, excludes }) => !OF_MODELS.includes(field) && excludes(endpoint),
  )
  if (rule) return rule.excludedBy
  // A call to a model that may keep nothing is kept by nobody else on its way.
  const keeps = endpoint.data_policy.retention_days !== 0
  return keeps && mayRetainNothing(world, policy.zdr, call) ? 'data_policy:zdr' : undefined
}

/** Fields of guardrails that name models: a service has none that calls could ask for. */
const OF_MODELS: (keyof Guardrail)[] = ['allowed_models', 'ignored_models']

/** The error for a service that may not be sent a call. */
export const denyService = ({ name, provider }: Service, word: string): GatewayError =>
  denied(`${name} may not be sent this call: its provider ${provider} is excluded by ${word}`).with(
    {
      metadata: { excluded_by: [word] },
    },
  )

// Its price is not known, so that rules of paid and of free models both hold.
function toEndpoint({ provider, model, data_policy }: Service): Endpoint {
  const known = getDataPolicy(provider)
  return {
    provider: { slug: provider },
    model: `${provider}/${model}`,
    prices: null,
    region: null,
    quantization: 'unknown',
    service_tier: null,
    data_policy: {
      training: data_policy?.training ?? known.training,
      retention_days: data_policy?.retention_days ?? known.retention_days,
    },
  } as Endpoint
}

/** Ours, not in the public list: a caller's key that excludes the gateway's own credential. */
export const BYOK_ONLY = 'byok_only'

/** Ours, not in the public list: there, every provider is configured. */
export const NOT_CONFIGURED = 'not_configured'

/** Ours: what a model costs that the catalogue does not know cannot be held to a limit. */
export const UNKNOWN_PRICE = 'unknown_price'

function checkConfigured({ provider }: Endpoint) {
  return provider.configured || NOT_CONFIGURED
}

function checkProviderPreferences(
  endpoint: Endpoint,
  { routing: { only, ignore, order, allow_fallbacks } }: CallBase,
) {
  const isListed = (names: string[]) => names.some(name => matchesProviderName(endpoint, name))
  const isExcluded =
    (only && !isListed(only)) ||
    (ignore && (isListed(ignore) || ignore.some(name => matchesAnyTier(endpoint, name)))) ||
    (allow_fallbacks === false && order && !isListed(order))
  return isExcluded ? 'allowed_providers' : true
}

function checkDataPolicy(
  { data_policy }: Endpoint,
  { routing: { data_collection, zdr } }: CallBase,
) {
  if (zdr && data_policy.retention_days !== 0) return 'data_policy:zdr'
  return data_collection === 'deny' && data_policy.training ? 'data_policy:training' : true
}

/** Ours: the public list has no word for it. */
function checkDistillable(
  { distillable }: Endpoint,
  { routing: { enforce_distillable_text } }: CallBase,
) {
  return !enforce_distillable_text || distillable || 'distillable_text'
}

function checkQuantization({ quantization }: Endpoint, { routing: { quantizations } }: CallBase) {
  return quantizations?.includes(quantization) === false ? 'quantization' : true
}

// An endpoint that has prices but none for a request charges nothing for it. Audio and images are
// priced by the token, like text unless they have a price of their own.
function isTooExpensive<K extends Kind>(
  { prices: all }: Endpoint,
  { input_modalities }: Model,
  kind: K,
  call: Work[K]['call'],
): boolean {
  const { max_price } = call.routing
  if (!max_price) return false
  if (!all) return Object.keys(max_price).length > 0
  const prices = all.tiers ? pickPrices(all, estimateLeastInput(kind, call)) : all
  const { prompt, completion, request, image, audio } = max_price
  return (
    (prompt !== undefined && prices.prompt > toAttosPerToken(prompt)) ||
    (completion !== undefined && prices.completion > toAttosPerToken(completion)) ||
    (request !== undefined && (prices.request ?? 0n) > toAttosPerUnit(request)) ||
    (image !== undefined &&
      input_modalities.includes('image') &&
      computePicturePrice(prices) > toAttosPerUnit(image)) ||
    (audio !== undefined && (prices.audio ?? prices.prompt) > toAttosPerUnit(audio))
  )
}

/** Estimates the tokens that an input has at least: ordinary text has fewer than are expected of it. */
function estimateLeastInput<K extends Kind>(kind: K, call: Work[K]['call']): number {
  const { estimateInput }: Costing<K> = kinds[kind].costing
  const { text, audio, video } = estimateInput(call)
  return Math.ceil((text + audio + video) * LEAST_SHARE)
}

// The estimate takes three bytes for a token; ordinary text has four.
const LEAST_SHARE = 3 / 4

/** Computes what the largest image costs, by its tokens or by the piece, in atto-dollars. */
const computePicturePrice = ({ image, prompt, per_input_image }: Prices): bigint =>
  pickLarger(BigInt(LARGEST_IMAGE) * (image ?? prompt), per_input_image)

/** Ours, not in the public list: an endpoint of a service tier that the call does not use. */
export const SERVICE_TIER = 'service_tier'

/** What decides whether a call uses an endpoint of a service tier. */
interface TierRequest {
  /** The tier that the call asks for. */
  requested: ServiceTier | undefined
  sort: SortKey | undefined
  routing: RoutingPreferences
}

/**
 * Tells whether the service tier of an endpoint keeps a call away (wire reference K.5). Endpoints of
 * a tier serve calls that ask for it, name the endpoint, or sort by what the tier is for. A call
 * that asks for `flex` is served by nothing else where the model has it.
 */
function isTierExcluded(
  endpoint: Endpoint,
  { endpoints }: Model,
  { requested, sort, routing: { only = [], order = [] } }: TierRequest,
): boolean {
  const { service_tier } = endpoint
  if (service_tier === null) return requested === 'flex' && endpoints.some(isUsableFlex)
  if (service_tier === requested || (sort && SORTED_TIERS[sort] === service_tier)) return false
  return ![...only, ...order].some(name => matchesProviderName(endpoint, name))
}

const isUsableFlex = ({ service_tier, provider }: Endpoint) =>
  service_tier === 'flex' && provider.configured

/** The tiers that `:nitro` and `:floor` use too (wire reference K.4). */
const SORTED_TIERS: Partial<Record<SortKey, ServiceTier>> = {
  throughput: 'priority',
  price: 'flex',
}

/**
 * Tells whether the name matches the endpoint: the slug of its provider, alone or with its region
 * or quantization (wire reference C.3). An endpoint of a service tier has one name only.
 */
export function matchesProviderName(endpoint: Endpoint, name: string): boolean {
  const { provider, region, service_tier } = endpoint
  return service_tier === null
    ? matchesAnyTier(endpoint, name)
    : name === buildTierName(provider.slug, region, service_tier)
}

/** Tells whether the name is that of the endpoint's provider, region or quantization, in any tier. */
function matchesAnyTier(
  { provider: { slug }, region, quantization }: Endpoint,
  name: string,
): boolean {
  if (!name.startsWith(slug)) return false
  const suffix = name.slice(slug.length)
  return suffix === '' || suffix === `/${region}` || suffix === `/${quantization}`
}

/** Ours, not in the public list: the model does not accept something that the call contains. */
export const INPUT_MODALITIES = 'input_modalities'

/** Lists what the call contains that the model is known not to accept: `image`, `file`, … */
export const listRefusedInputs = <K extends Kind>(
  { refused_modalities }: Model,
  kind: K,
  call: Work[K]['call'],
): string[] =>
  refused_modalities.length === 0
    ? []
    : getInputs(kind, call).filter(input => refused_modalities.includes(input))

const inputsByCall = new WeakMap<object, string[]>()

// Each endpoint of each model is checked, but a call contains what it contains.
function getInputs<K extends Kind>(kind: K, call: Work[K]['call']): string[] {
  const known = inputsByCall.get(call)
  if (known) return known
  const inputs = new Set<string>()
  for (const blocks of kinds[kind].understanding.readRichContents(call))
    for (const block of blocks) if (isMedia(block)) inputs.add(block.type)
  const listed = [...inputs]
  inputsByCall.set(call, listed)
  return listed
}

// Text files are sent as texts, and so is what a plugin has read. What a provider keeps under an id may be anything.
function isMedia(block: Block): boolean {
  if (block.type !== 'file') return MEDIA.has(block.type)
  if (block.parsed) return false
  const { file_data } = block.file
  return file_data !== undefined && !file_data.startsWith('data:text/')
}

const MEDIA = new Set(['image', 'audio', 'video'])
