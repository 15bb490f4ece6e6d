import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../../base/errors.ts'
import { omitUndefined } from '../../base/json.ts'
import { toUsd } from '../../base/money.ts'
import {
  Content,
  closed,
  list,
  open,
  optional,
  SomeContent,
  SomeName,
} from '../../base/schema-builders.ts'
import type { Answer } from '../../language/answer.ts'
import type { RerankCall, RerankDocument, RerankPart } from '../../language/rerank.ts'
import { countInputTokens, type Receipt } from '../../language/usage.ts'
import type { Actor } from '../../resources/actor.ts'
import type { CallContext, Dialect } from './dialect.ts'
import {
  buildCallBase,
  CONVERSATION_FIELDS,
  readExtraFields,
  refuseConversationFields,
  routingFields,
} from './routing.ts'
import { dryRunFields } from './schema.ts'
import type { DialectWorld } from './world.ts'

/**
 * The rerank request (specification E4, wire reference B.3). Fields that are not named here are
 * forwarded unchanged.
 */

/** The most documents of a call: Cohere and Voyage accept as many, others more or fewer. */
const MAX_DOCUMENTS = 10_000

const DocumentBody = Type.Union([
  Content,
  Type.Object({ text: optional(Content), image: optional(SomeContent) }, open),
])
type DocumentBody = Static<typeof DocumentBody>

const { user, session_id, trace, provider } = routingFields

/** The body of `POST /rerank`. */
const RerankRequest = Type.Object(
  {
    model: SomeName,
    query: SomeContent,
    documents: list(DocumentBody, { minItems: 1, maxItems: MAX_DOCUMENTS }),
    top_n: optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })),
    provider,
    user,
    session_id,
    trace,
    debug: optional(Type.Object(dryRunFields, closed)),
  },
  open,
)
type RerankRequest = Static<typeof RerankRequest>

type Ranking = Extract<RerankPart, { type: 'ranking' }>

/**
 * Collects the parts of an answer into one list, the most relevant document first, with the
 * documents as they came and no more of them than requested. Throws the error of a failed answer.
 */
async function collectRerankResponse(answer: Answer<'rerank'>, call: RerankCall) {
  const rankings: Ranking[] = []
  let method: string | undefined
  let receipt: Receipt | null = null
  for (const batch of await answer.parts.collect()) {
    for (const part of batch) {
      if (part.type === 'error') throw part.error
      if (part.type === 'receipt') receipt = part.receipt
      if (part.type === 'method') method = part.method
      if (part.type === 'ranking') rankings.push(part)
    }
  }
  return {
    id: answer.id,
    model: answer.model,
    provider: answer.provider,
    results: rankings
      .toSorted(compareRelevance)
      .slice(0, call.params.top_n)
      .map(ranking => renderResult(ranking, call.documents)),
    // Ours, not in the public schema: the model only computes vectors, and these are their cosines.
    ...(method === undefined ? {} : { method }),
    ...(receipt ? { usage: renderUsage(receipt), meta: renderMeta(receipt) } : {}),
  }
}

// Documents of the same relevance keep their order, whatever order the provider gives them.
const compareRelevance = (one: Ranking, other: Ranking): number =>
  other.relevance_score - one.relevance_score || one.index - other.index

const renderResult = ({ index, relevance_score }: Ranking, documents: RerankDocument[]) => ({
  index,
  relevance_score,
  document: documents[index] ?? {},
})

/** Renders what Cohere's clients require: the units that are charged for, in Cohere's form. */
const renderMeta = ({ usage: { units } }: Receipt) => ({
  billed_units: units?.search_unit ? { search_units: units.search_unit } : {},
})

/** Renders the usage: what the provider charges by, tokens or ranking units, and the cost. */
function renderUsage({ usage, cost }: Receipt) {
  const total_tokens = countInputTokens(usage)
  const search_units = usage.units?.search_unit ?? 0
  return {
    ...(search_units > 0 ? { search_units } : {}),
    ...(total_tokens > 0 ? { total_tokens } : {}),
    // Left out if unknown: the official clients accept a number or nothing.
    ...(cost === null ? {} : { cost: toUsd(cost) }),
  }
}

/** The rerank API: documents by their relevance to a query (specification E4, reference B.3). */
export const rerank: Dialect<'rerank', RerankRequest> = {
  name: 'rerank',
  kind: 'rerank',
  path: '/rerank',
  operation: { id: 'createRerank', tag: 'Rerank', summary: 'Sort documents by relevance' },
  body: RerankRequest,
  toCall: toRerankCall,
  collectResponse: collectRerankResponse,
}

/**
 * Translates a checked body into a call. Throws 400 for a document without a text or a picture, and
 * for an empty list of allowed providers.
 */
function toRerankCall(
  world: DialectWorld,
  actor: Actor,
  body: RerankRequest,
  context: CallContext,
): RerankCall {
  refuseConversationFields(body)
  const { model, provider, user, session_id, trace, top_n } = body
  return {
    ...buildCallBase(
      world,
      actor,
      { model, ...omitUndefined({ provider, user, session_id, trace }) },
      context,
    ),
    kind: 'rerank',
    query: body.query,
    documents: body.documents.map(toDocument),
    params: top_n == null ? {} : { top_n },
    extra: readExtraFields(body, KNOWN_FIELDS),
  }
}

/** The fields that providers do not get, or get in another form. Rankings do not stream. */
const KNOWN_FIELDS = new Set([
  ...Object.keys(RerankRequest.properties),
  ...CONVERSATION_FIELDS,
  'stream',
])

function toDocument(document: DocumentBody, index: number): RerankDocument {
  if (typeof document === 'string') return { text: document }
  const at = `documents.${index}`
  const unknown = Object.keys(document).find(name => name !== 'text' && name !== 'image')
  if (unknown !== undefined)
    throw invalid(`${at}: expected a text, an image or both, found ${JSON.stringify(unknown)}`, at)
  const { text, image } = document
  if (text == null && image == null)
    throw invalid(`${at}: expected a text, an image or both, found neither`, at)
  return { ...(text == null ? {} : { text }), ...(image == null ? {} : { image }) }
}
