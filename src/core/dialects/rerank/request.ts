import { invalid } from '../../errors.ts'
import type { Actor } from '../../identity/actor.ts'
import { omitUndefined } from '../../kernel/json.ts'
import type { RerankCall, RerankDocument } from '../../language/rerank.ts'
import type { CallContext } from '../dialect.ts'
import { buildCallBase, CONVERSATION_FIELDS, refuseConversationFields } from '../routing.ts'
import { readExtraFields } from '../schema.ts'
import type { DialectWorld } from '../world.ts'
import { type RerankDocument as DocumentBody, RerankRequest } from './schema.ts'

/**
 * Translates a checked body into a call. Throws 400 for a document without a text or a picture, and
 * for an empty list of allowed providers.
 */
export function toRerankCall(
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
