import { type Static, Type } from '@sinclair/typebox'
import {
  Content,
  closed,
  list,
  open,
  optional,
  SomeContent,
  SomeName,
} from '../../../base/schema-builders.ts'
import { routingFields } from '../routing.ts'
import { dryRunFields } from '../schema.ts'

/**
 * The rerank request (specification E4, wire reference B.3). Fields that are not named here are
 * forwarded unchanged.
 */

/** The most documents of a call: Cohere and Voyage accept as many, others more or fewer. */
const MAX_DOCUMENTS = 10_000

const RerankDocument = Type.Union([
  Content,
  Type.Object({ text: optional(Content), image: optional(SomeContent) }, open),
])
export type RerankDocument = Static<typeof RerankDocument>

const { user, session_id, trace, provider } = routingFields

/** The body of `POST /rerank`. */
export const RerankRequest = Type.Object(
  {
    model: SomeName,
    query: SomeContent,
    documents: list(RerankDocument, { minItems: 1, maxItems: MAX_DOCUMENTS }),
    top_n: optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })),
    provider,
    user,
    session_id,
    trace,
    debug: optional(Type.Object(dryRunFields, closed)),
  },
  open,
)
export type RerankRequest = Static<typeof RerankRequest>
