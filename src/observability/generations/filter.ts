import { type Static, Type } from '@sinclair/typebox'
import { STATUS } from '../../base/errors.ts'
import { SomeId, SomeName, UtcTime } from '../../base/schema-builders.ts'

/** The query of `generations list`. */
export const GenerationListQuery = Type.Object({
  /** The id of a generation, or the request id that its caller saw. */
  id: Type.Optional(SomeId),
  key_hash: Type.Optional(SomeName),
  model: Type.Optional(SomeName),
  provider: Type.Optional(SomeName),
  status: Type.Optional(
    Type.String({
      pattern: `^(ok|error|cancelled|[45]xx|[1-5]\\d\\d|${Object.keys(STATUS).join('|')})$`,
      title: 'ok, error, cancelled, an HTTP status, 4xx, 5xx, or an error type such as timeout',
    }),
  ),
  since: Type.Optional(UtcTime),
  until: Type.Optional(UtcTime),
  app: Type.Optional(SomeName),
  session_id: Type.Optional(SomeName),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000 })),
  /** The last id of the page before. */
  cursor: Type.Optional(SomeId),
})

export type GenerationListQuery = Static<typeof GenerationListQuery>

/** What is asked of the store: also whose calls, and of which batch. Clients choose request ids. */
export interface StoredListQuery extends GenerationListQuery {
  workspace_id?: string
  user_id?: string
  batch_id?: string
}

/** How calls ended that a list asks for. */
export interface Outcome {
  cancelled: boolean
  /** The types of their errors; empty for none, null for any. */
  types: string[] | null
}

/** Reads how calls ended from a status. Null if it names none that a call can end with. */
export function readOutcome(status: string): Outcome {
  if (status === 'cancelled' || status === '499') return { cancelled: true, types: null }
  if (status === 'ok' || status === '200') return { cancelled: false, types: [] }
  if (status === 'error') return { cancelled: false, types: Object.keys(STATUS) }
  const types = Object.entries(STATUS).flatMap(([type, code]) =>
    type === status || String(code) === status || `${String(code)[0]}xx` === status ? type : [],
  )
  return { cancelled: false, types: types.length > 0 ? types : ['none'] }
}
