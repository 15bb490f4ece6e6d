import type { Endpoint, Model } from '../../catalog/models.ts'
import type { Prices } from '../../catalog/prices.ts'
import { attosOfUsd, attosPerToken, larger } from '../../kernel/money.ts'
import type { CallBase } from '../../language/call.ts'
import type { Kind, Work } from '../../language/work.ts'
import { protocols } from '../../protocols/registry.ts'
import { LARGEST_PICTURE } from '../../tokenizers/prompt.ts'
import { kinds } from '../kinds.ts'

/**
 * Returns true if the endpoint may serve this call, or else the word for the constraint that it
 * violates.
 */
type Wish = (endpoint: Endpoint, call: CallBase, model: Model) => string | true

/** Constraints of every kind of work. Those of one kind are checked after them. */
const WISHES: Wish[] = [
  canBeCalled,
  chosenByCaller,
  keepsNoData,
  isDistillable,
  isQuantized,
  withinPrice,
]

/** The endpoint's protocol may not support this kind of work. */
export const WRONG_ENDPOINT = 'wrong_endpoint'

/**
 * Finds the constraint of the call that the endpoint violates: the word of `excluded_by` (wire
 * reference L.3).
 */
export function forbidding<K extends Kind>(
  endpoint: Endpoint,
  model: Model,
  kind: K,
  call: Work[K]['call'],
): string | undefined {
  if (!protocols[kind][endpoint.protocol]) return WRONG_ENDPOINT
  for (const wish of WISHES) {
    const verdict = wish(endpoint, call, model)
    if (verdict !== true) return verdict
  }
  const verdict = kinds[kind].understanding.serves(call, endpoint)
  return verdict === true ? undefined : verdict
}

/** Ours, not in the public list: a caller's key that excludes the gateway's own credential. */
export const BYOK_ONLY = 'byok_only'

/** Ours, not in the public list: there, every provider is configured. */
export const NOT_CONFIGURED = 'not_configured'

function canBeCalled({ provider }: Endpoint) {
  return provider.configured || NOT_CONFIGURED
}

function chosenByCaller(
  endpoint: Endpoint,
  { routing: { only, ignore, order, allow_fallbacks } }: CallBase,
) {
  const isIn = (names: string[]) => names.some(name => isCalled(endpoint, name))
  const isOut =
    (only && !isIn(only)) ||
    (ignore && isIn(ignore)) ||
    (allow_fallbacks === false && order && !isIn(order))
  return isOut ? 'allowed_providers' : true
}

function keepsNoData({ data_policy }: Endpoint, { routing: { data_collection, zdr } }: CallBase) {
  if (zdr && data_policy.retention_days !== 0) return 'data_policy:zdr'
  return data_collection === 'deny' && data_policy.training ? 'data_policy:training' : true
}

/** Ours: the public list has no word for it. */
function isDistillable(
  { distillable }: Endpoint,
  { routing: { enforce_distillable_text } }: CallBase,
) {
  return !enforce_distillable_text || distillable || 'distillable_text'
}

function isQuantized({ quantization }: Endpoint, { routing: { quantizations } }: CallBase) {
  return quantizations?.includes(quantization) === false ? 'quantization' : true
}

// An endpoint that has prices but none for a request charges nothing for it. Audio and images are
// priced by the token, like text unless they have a price of their own.
function withinPrice(
  { prices }: Endpoint,
  { routing: { max_price } }: CallBase,
  { input_modalities }: Model,
) {
  if (!max_price) return true
  if (!prices) return Object.keys(max_price).length === 0 || 'max_price'
  const { prompt, completion, request, image, audio } = max_price
  const isTooDear =
    (prompt !== undefined && prices.prompt > attosPerToken(prompt)) ||
    (completion !== undefined && prices.completion > attosPerToken(completion)) ||
    (request !== undefined && (prices.request ?? 0n) > attosOfUsd(request)) ||
    (image !== undefined &&
      input_modalities.includes('image') &&
      pictureOf(prices) > attosOfUsd(image)) ||
    (audio !== undefined && (prices.audio ?? prices.prompt) > attosOfUsd(audio))
  return isTooDear ? 'max_price' : true
}

/** Computes what the largest image costs, by its tokens or by the piece, in atto-dollars. */
const pictureOf = ({ image, prompt, per_input_image }: Prices): bigint =>
  larger(BigInt(LARGEST_PICTURE) * (image ?? prompt), per_input_image)

/**
 * Tells whether the name matches the endpoint: the slug of its provider, alone or with its region
 * or quantization (wire reference C.3).
 */
export function isCalled(
  { provider: { slug }, region, quantization }: Endpoint,
  name: string,
): boolean {
  if (!name.startsWith(slug)) return false
  const suffix = name.slice(slug.length)
  return suffix === '' || suffix === `/${region}` || suffix === `/${quantization}`
}
