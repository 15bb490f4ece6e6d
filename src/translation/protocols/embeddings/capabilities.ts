import { getOwn } from '../../../base/json.ts'
import type { EmbeddingCall } from '../../../language/embedding.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { listDropped } from '../dropped.ts'
import { type Purpose, parsePurpose } from '../embeddings.ts'

type Names = Partial<Record<Purpose, string>>

/** Cohere's names of purposes (https://docs.cohere.com/reference/embed). */
export const COHERE_PURPOSES: Names = {
  query: 'search_query',
  document: 'search_document',
  classification: 'classification',
  clustering: 'clustering',
}

/** https://docs.voyageai.com/reference/embeddings-api */
export const VOYAGE_PURPOSES: Names = { query: 'query', document: 'document' }

/** https://docs.aws.amazon.com/nova/latest/nova2-userguide/embeddings-schema.html */
export const NOVA_PURPOSES: Names = {
  query: 'GENERIC_RETRIEVAL',
  document: 'GENERIC_INDEX',
  classification: 'CLASSIFICATION',
  clustering: 'CLUSTERING',
}

/** The names of purposes that no other provider has. */
const GOOGLES_OWN = /^(QUESTION_ANSWERING|FACT_VERIFICATION|CODE_RETRIEVAL_QUERY)$/
const NOVAS_OWN = /^(GENERIC_INDEX|(GENERIC|TEXT|IMAGE|VIDEO|DOCUMENT|AUDIO)_RETRIEVAL)$/

const pickOwn = (names: RegExp) => (input_type: string | undefined) => {
  const name = input_type?.toUpperCase()
  return name !== undefined && names.test(name) ? name : undefined
}

/** Return the provider's own name for a purpose that no other provider has. */
export const pickGooglePurpose = pickOwn(GOOGLES_OWN)
export const pickNovaPurpose = pickOwn(NOVAS_OWN)

/** The makers of Bedrock's models. An inference profile has its regions in front of the name. */
export const isCohere = ({ upstreamModel }: Endpoint): boolean =>
  /cohere\.embed-/.test(upstreamModel)
export const isNova = ({ upstreamModel }: Endpoint): boolean => /amazon\.nova-/.test(upstreamModel)

/** Lists the parameters that the endpoint cannot use, under their wire names. */
export function listIgnoredEmbedding(call: EmbeddingCall, endpoint: Endpoint): string[] {
  const { params, extra } = call
  const hasLength = params.dimensions !== undefined && FIXED.test(endpoint.upstreamModel)
  const dropped = [...listDropped(params, endpoint), ...listDropped(extra, endpoint)]
  return [
    ...new Set([
      ...(hasLength ? ['dimensions'] : []),
      ...(ignoresPurpose(params.input_type, endpoint) ? ['input_type'] : []),
      ...dropped,
    ]),
  ]
}

/** Models whose vectors have one length: naming another is an error of their providers. */
const FIXED = new RegExp(
  [
    '(^|/)text-embedding-ada-002',
    '(^|[./])embed-(english|multilingual)-(light-)?v[23]',
    '(^|[./])titan-embed-(text-v1|g1-text)',
    '(^|/)(textembedding-gecko|embedding-001$|mistral-embed$)',
    '(^|/)voyage-(01|2|law-2|code-2|large-2|lite-0[12]|multilingual-2|finance-2)(-instruct)?$',
  ].join('|'),
)

// What names no purpose goes on as it is, for providers that have names of their own.
function ignoresPurpose(input_type: string | undefined, endpoint: Endpoint): boolean {
  if (input_type === undefined) return false
  const purpose = parsePurpose(input_type)
  const isGoogle = endpoint.protocol === 'gemini'
  if (purpose === undefined && (isGoogle || isNova(endpoint)))
    return (isGoogle ? pickGooglePurpose : pickNovaPurpose)(input_type) === undefined
  const names = listNames(endpoint)
  if (names === undefined) return false
  return names === null || (purpose !== undefined && names[purpose] === undefined)
}

/** The names of an endpoint's purposes; undefined where any value goes, null where none does. */
function listNames(endpoint: Endpoint): Names | null | undefined {
  if (endpoint.protocol !== 'bedrock-converse') return getOwn(BY_PROTOCOL, endpoint.protocol)
  if (isCohere(endpoint)) return COHERE_PURPOSES
  return isNova(endpoint) ? NOVA_PURPOSES : null
}

const BY_PROTOCOL: Record<string, Names> = {
  'cohere-chat': COHERE_PURPOSES,
  'voyage-rerank': VOYAGE_PURPOSES,
}
