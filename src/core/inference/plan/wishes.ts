import type { Endpoint, Model } from '../../catalog/models.ts'
import type { Prices } from '../../catalog/prices.ts'
import { attosOfUsd, attosPerToken, larger } from '../../kernel/money.ts'
import type { CallBase } from '../../language/call.ts'
import type { Kind, Work } from '../../language/work.ts'
import { protocols } from '../../protocols/registry.ts'
import { LARGEST_PICTURE } from '../../tokenizers/prompt.ts'
import { kinds } from '../kinds.ts'

/** Says of one endpoint that it may serve this call, or which of the call's wishes forbids it. */
type Wish = (endpoint: Endpoint, call: CallBase, model: Model) => string | true

/** What is asked of an endpoint whatever the kind of work. The kind's own wishes come after these. */
const WISHES: Wish[] = [
  canBeCalled,
  chosenByCaller,
  keepsNoData,
  isDistillable,
  isQuantized,
  withinPrice,
]

/** How the endpoint's provider speaks may have no words for this kind of work. */
export const WRONG_ENDPOINT = 'wrong_endpoint'

/** Which of the call's wishes forbids the endpoint: the word of `excluded_by` (wire reference L.3). */
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

/** Ours, not the public list's: a caller's key that says so keeps the gateway's own credential away. */
export const BYOK_ONLY = 'byok_only'

/** Ours, not the public list's: there, every provider is configured. */
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

// What has prices and none for a request asks nothing for it. Sound and pictures are priced by the token, like text where they have no own price.
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

/** What the largest picture costs, by its tokens or by the piece, in atto-dollars. */
const pictureOf = ({ image, prompt, per_input_image }: Prices): bigint =>
  larger(BigInt(LARGEST_PICTURE) * (image ?? prompt), per_input_image)

/** Whether an endpoint goes by this name: its provider's slug, or that with its region or its quantization (wire reference C.3). */
export function isCalled(
  { provider: { slug }, region, quantization }: Endpoint,
  name: string,
): boolean {
  if (!name.startsWith(slug)) return false
  const suffix = name.slice(slug.length)
  return suffix === '' || suffix === `/${region}` || suffix === `/${quantization}`
}
