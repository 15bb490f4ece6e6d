import { type Static, Type } from '@sinclair/typebox'
import {
  closed,
  list,
  oneOf,
  open,
  optional,
  SomeName,
  UtcTime,
  Uuid,
} from '../../base/schema-builders.ts'
import { BATCH_ENDPOINTS, LINE_FIELDS } from '../../resources/files/request-lines.ts'
import { FileId } from '../../resources/files/schema.ts'
import { BATCH_STATUSES } from './store.ts'

/** The most lines of a batch whose requests come in its body. */
const MOST_INLINE = 100_000

const InlineRequest = Type.Object(
  { custom_id: LINE_FIELDS.custom_id, body: Type.Object({}, open) },
  closed,
)

/** What a client wants to remember of a batch, as OpenAI has it. */
const Metadata = Type.Record(Type.String({ maxLength: 64 }), Type.String({ maxLength: 512 }), {
  maxProperties: 16,
})

/**
 * The body of `POST /batches`: a file of requests as OpenAI's clients send it, or the requests
 * themselves, for one model (wire reference B.6).
 */
export const NewBatch = Type.Object(
  {
    endpoint: oneOf(...BATCH_ENDPOINTS),
    input_file_id: Type.Optional(FileId),
    requests: Type.Optional(list(InlineRequest, { minItems: 1, maxItems: MOST_INLINE })),
    model: Type.Optional(SomeName),
    provider: Type.Optional(
      Type.Object({ only: list(SomeName, { minItems: 1, maxItems: 100 }) }, closed),
    ),
    completion_window: Type.Optional(oneOf('24h')),
    metadata: optional(Metadata),
    output_expires_after: Type.Optional(
      Type.Object(
        {
          anchor: Type.Literal('created_at'),
          seconds: Type.Integer({ minimum: 3_600, maximum: 2_592_000 }),
        },
        closed,
      ),
    ),
  },
  closed,
)
export type NewBatch = Static<typeof NewBatch>

/** What a batch’s routes take beside its id. */
export const BatchScope = Type.Object({ workspace_id: Type.Optional(Uuid) }, closed)
export type BatchScope = Static<typeof BatchScope>

const Status = oneOf(...BATCH_STATUSES)

/** The query of `GET /batches`. */
export const BatchQuery = Type.Object(
  {
    workspace_id: Type.Optional(Uuid),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
    after: Type.Optional(Type.String({ pattern: '^batch_[0-9a-f]{32}$', maxLength: 40 })),
    status: Type.Optional(Type.Union([Status, list(Status, { maxItems: 8 })])),
    created_after: Type.Optional(UtcTime),
    created_before: Type.Optional(UtcTime),
  },
  closed,
)
export type BatchQuery = Static<typeof BatchQuery>
