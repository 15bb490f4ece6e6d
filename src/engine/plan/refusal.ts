import { GatewayError } from '../../base/errors.ts'
import type { CallBase } from '../../language/call.ts'
import type { Kind, Work } from '../../language/work.ts'
import type { Rule } from '../../limits/policy-world.ts'
import type { Catalog, Endpoint, Model } from '../../resources/models/catalog.ts'
import { FREE_VARIANT } from '../../resources/models/derived.ts'
import { listOtherNames, renderOtherNames } from '../../resources/models.ts'
import { listUnsupportedParameters } from '../../translation/protocols/images/capabilities.ts'
import { listUnsupportedSpeech } from '../../translation/protocols/speech/capabilities.ts'
import { listUnsupportedTranscription } from '../../translation/protocols/transcription/capabilities.ts'
import { listUnsupportedVideo } from '../../translation/protocols/videos/capabilities.ts'
import { getFacts } from '../../translation/tokenizers/prompt.ts'
import { IMAGE_PARAMETERS } from '../kinds/image.ts'
import { SPEECH_PARAMETERS } from '../kinds/speech.ts'
import { nameOutputBound } from '../kinds/text/understanding.ts'
import { TRANSCRIPTION_PARAMETERS } from '../kinds/transcription.ts'
import { VIDEO_PARAMETERS } from '../kinds/video.ts'
import { kinds } from '../kinds.ts'
import {
  BYOK_ONLY,
  INPUT_MODALITIES,
  listRefusedInputs,
  NOT_CONFIGURED,
  SERVICE_TIER,
  UNKNOWN_PRICE,
  WRONG_ENDPOINT,
} from './constraints.ts'

/** An endpoint that a plan leaves out. */
export interface DroppedEndpoint {
  endpoint: Endpoint
  /** The word for the reason in `error.availability.excluded_by` (wire reference L.3). */
  excludedBy: string
  /** The rule of a guardrail that drops it, if one does. */
  rule?: Rule
}

/** The model exists, but not for this kind of work. */
export const wrongEndpoint = (slug: string, why: string) =>
  unavailableModel('wrong_endpoint', slug, `${slug} ${why}`)

/** The model cannot be used as the call names it (wire reference L.3). */
const unavailableModel = (code: string, slug: string, message: string, more: object = {}) =>
  new GatewayError('invalid_request', message, {
    metadata: {
      field: 'model',
      availability: { code, retryable: false, requested_models: [slug], ...more },
    },
  })

/** Error messages repeat at most this much of a slug. */
const LONGEST_SLUG = 200

/** No model has this name, or the name has two variants at once. */
export function unknownModel({ models }: Catalog, slug: string): GatewayError {
  const shortSlug = slug.slice(0, LONGEST_SLUG)
  const [, base = '', variants = ''] = /^([^:]+)((?::[^:]*){2,})$/.exec(shortSlug) ?? []
  const message = models.has(base)
    ? `${base} takes one variant, found ${variants}`
    : `${JSON.stringify(shortSlug)} is not a valid model ID${renderOtherNames({ models }, slug)}`
  const names = listOtherNames({ models }, slug)
  return unavailableModel(
    'model_not_found',
    shortSlug,
    message,
    names.length > 0 ? { fallback_models: names } : {},
  )
}

/** Variants that are models of their own, if they exist. */
const STATIC = [FREE_VARIANT, ':extended']

/** The model has no such variant: what the variant asks for would not be done. */
export function unknownVariant(
  { models }: Catalog,
  base: string,
  variant: string,
  knownVariants: string[],
): GatewayError {
  const variants = [...STATIC.filter(one => models.has(base + one)), ...knownVariants]
  const why = variant === ':thinking' ? ', since it is not known to reason' : ''
  const shortVariant = variant.slice(0, LONGEST_SLUG)
  const expected = `${[base, ...variants.slice(0, -1)].join(', ')} or ${variants.at(-1)}`
  const message = `${base} has no variant ${shortVariant} here${why}: expected ${expected}`
  return unavailableModel('model_not_found', base + shortVariant, message)
}

/**
 * In the order in which they are checked: the last one that applies is the one that was in the way.
 */
export const SENTENCES: Record<string, string> = {
  [BYOK_ONLY]:
    'a provider key of the workspace excludes all others, and may not be used for this call itself',
  allowed_providers:
    'provider.only, provider.ignore and provider.order leave no provider that serves it',
  'data_policy:zdr': 'provider.zdr asks for zero data retention',
  'data_policy:training': 'provider.data_collection asks for providers that do not train on data',
  distillable_text:
    'provider.enforce_distillable_text asks for a model whose author allows training on its texts',
  quantization: 'provider.quantizations names none that is served',
  [SERVICE_TIER]:
    'service_tier is none of those that serve it, and provider.only and order name none of them',
  max_price: 'provider.max_price is below every price',
  require_parameters: 'provider.require_parameters asks for parameters that are not supported',
  reasoning: ':thinking asks for a provider that can be told to reason',
  web_search:
    'no provider of it searches the web itself as it is told to, which :online, the web plugin and ' +
    'web_search ask for where the gateway has no engine (web_search.engines in gateway.yaml gives ' +
    'all models one); only xAI searches X, over its Responses API',
  context_length: 'the prompt and max_tokens are longer than the context',
  [IMAGE_PARAMETERS]: 'no provider of it draws with what is asked for',
  [SPEECH_PARAMETERS]: 'no provider of it speaks with what is asked for',
  [TRANSCRIPTION_PARAMETERS]: 'no provider of it transcribes as is asked for',
  [VIDEO_PARAMETERS]: 'no provider of it makes a video with what is asked for',
  [UNKNOWN_PRICE]:
    'its price is not known, and a limit of money is to hold; an entry `<author>/*` of models in ' +
    'gateway.yaml with usd_per_million_tokens gives such names a price, and unknown_models: refuse ' +
    'refuses them all',
  [INPUT_MODALITIES]: 'what the prompt contains is not accepted as input',
}

/** No endpoint is left; the message names what was in the way. `models` are those of the call. */
export function noEndpointsLeft<K extends Kind>(
  kind: K,
  call: Work[K]['call'],
  dropped: DroppedEndpoint[],
  models: Model[],
): GatewayError {
  const [slug = ''] = call.models
  if (dropped.length > 0 && dropped.every(({ excludedBy }) => excludedBy === WRONG_ENDPOINT))
    return wrongEndpoint(slug, `is at no provider that can be asked for ${kinds[kind].outputName}`)
  const excluded_by = [...new Set(dropped.map(one => one.excludedBy))]
  const rules = [...new Set(dropped.flatMap(({ rule }) => rule ?? []))]
  if (rules.length > 0) return withheldByGuardrails(call, rules, excluded_by)
  const last = Object.keys(SENTENCES).findLast(word => excluded_by.includes(word))
  if (last === undefined)
    return unavailableRoute('no_endpoints', call, renderUnconfigured(call, dropped), excluded_by)
  const detail = renderDetail(last, { kind, call, dropped, models })
  const message = `No endpoints found for ${slug}: ${SENTENCES[last] ?? last}${detail}.`
  if (excluded_by.length === 1 && last === 'context_length')
    return exceededContext(call, dropped, message)
  return unavailableRoute(
    last.startsWith('data_policy') ? 'privacy_restricted' : 'constraint_filtered',
    call,
    message,
    excluded_by,
  )
}

/** What is known where no endpoint is left. */
interface Dropping<K extends Kind> {
  kind: K
  call: Work[K]['call']
  dropped: DroppedEndpoint[]
  models: Model[]
}

/** Renders what the sentence of a constraint says more exactly; empty for most. */
function renderDetail<K extends Kind>(
  word: string,
  { kind, call, dropped, models }: Dropping<K>,
): string {
  if (word === 'allowed_providers') return renderServingProviders(dropped)
  if (PARAMETER_WORDS.includes(word)) return renderParameters(call, dropped)
  if (word !== INPUT_MODALITIES) return ''
  const refused = models.flatMap(model => listRefusedInputs(model, kind, call))
  return ` (${[...new Set(refused)].join(', ')})`
}

const PARAMETER_WORDS = [
  IMAGE_PARAMETERS,
  SPEECH_PARAMETERS,
  TRANSCRIPTION_PARAMETERS,
  VIDEO_PARAMETERS,
]

function renderParameters(call: Work[Kind]['call'], dropped: DroppedEndpoint[]): string {
  const names = dropped.flatMap(({ endpoint }) => listUnsupported(call, endpoint))
  return ` (${[...new Set(names)].join(', ')})`
}

function listUnsupported(call: Work[Kind]['call'], endpoint: Endpoint): string[] {
  if (call.kind === 'image') return listUnsupportedParameters(call, endpoint)
  if (call.kind === 'speech') return listUnsupportedSpeech(call, endpoint)
  if (call.kind === 'video') return listUnsupportedVideo(call, endpoint)
  return call.kind === 'transcription' ? listUnsupportedTranscription(call, endpoint) : []
}

// Without its max_tokens, a short prompt would have fit.
function exceededContext(
  call: Work[Kind]['call'],
  dropped: DroppedEndpoint[],
  message: string,
): GatewayError {
  const contexts = dropped.map(({ endpoint }) => endpoint.context_length ?? 0)
  const isPromptTooLong =
    call.kind === 'text' && getFacts(call.messages).leastTokens > Math.max(...contexts)
  const bound = nameOutputBound(call)
  const prompt = bound === 'max_output_tokens' ? 'input' : 'messages'
  const field = isPromptTooLong ? prompt : bound
  return new GatewayError(
    isPromptTooLong ? 'context_length_exceeded' : 'max_tokens_exceeded',
    message.replace('max_tokens', bound),
    { metadata: { field, excluded_by: ['context_length'] } },
  )
}

function unavailableRoute(
  code: string,
  { models }: CallBase,
  message: string,
  excluded_by: string[],
): GatewayError {
  const availability = { code, retryable: false, requested_models: models, excluded_by }
  return new GatewayError('not_found', message, { metadata: { excluded_by, availability } })
}

/** A router has nothing left to pick from. */
export function noRouterCandidates(
  call: CallBase,
  { reasons, rules }: { reasons: Set<string>; rules: Set<Rule> },
): GatewayError {
  const excluded_by = reasons.size > 0 ? [...reasons] : [NOT_CONFIGURED]
  const message = 'No models match your request and model restrictions'
  const guardrails = [...rules].map(({ guardrail_id, field }) => ({ guardrail_id, field }))
  const { type, metadata } = unavailableRoute(pickCode(excluded_by), call, message, excluded_by)
  return new GatewayError(type, message, {
    metadata: { ...metadata, ...(guardrails.length > 0 ? { guardrails } : {}) },
  })
}

function pickCode(excluded_by: string[]): string {
  if (excluded_by.every(word => word === NOT_CONFIGURED)) return 'no_endpoints'
  return excluded_by.every(word => word.startsWith('data_policy'))
    ? 'privacy_restricted'
    : 'constraint_filtered'
}

function withheldByGuardrails(call: CallBase, rules: Rule[], excluded_by: string[]): GatewayError {
  const fields = [...new Set(rules.map(({ field }) => field))].join(' and ')
  const guardrails = rules.map(({ guardrail_id, field }) => ({ guardrail_id, field }))
  const owner = rules.length === 1 ? 'a guardrail' : 'guardrails'
  const message = `No endpoints found for ${call.models[0]}: excluded by ${fields} of ${owner}.`
  const { type, metadata } = unavailableRoute(pickCode(excluded_by), call, message, excluded_by)
  return new GatewayError(type, message, { metadata: { ...metadata, guardrails } })
}

// The provider that the caller names may be misspelled or not configured.
function renderServingProviders(dropped: DroppedEndpoint[]): string {
  const model = dropped[0]?.endpoint.model
  const others = dropped.filter(
    ({ endpoint }) => endpoint.model === model && endpoint.provider.configured,
  )
  return others.length > 0 ? `; here it is served by ${listProviderSlugs(others).join(', ')}` : ''
}

const listProviderSlugs = (dropped: DroppedEndpoint[]) => [
  ...new Set(dropped.map(({ endpoint }) => endpoint.provider.slug)),
]

function renderUnconfigured(call: CallBase, dropped: DroppedEndpoint[]): string {
  const names = listProviderSlugs(dropped)
  if (names.length === 0) return `No endpoints found for ${call.models[0]}.`
  const none = names.length === 1 ? 'which is not configured' : 'and none of them is configured'
  return `No endpoints found for ${call.models[0]}: it is served by ${names.join(', ')}, ${none}.`
}
