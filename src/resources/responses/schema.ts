import { type Static, Type } from '@sinclair/typebox'
import { Id, oneOf, open, TrueOrFalse } from '../../base/schema-builders.ts'

/** The query of `GET /responses/{response_id}`. All that is kept is shown, whatever is included. */
export const ResponseQuery = Type.Object(
  {
    stream: Type.Optional(TrueOrFalse),
    starting_after: Type.Optional(
      Type.Integer({
        minimum: 0,
        description: 'With `stream=true`: the `sequence_number` of the last event that was read',
      }),
    ),
  },
  open,
)

/** The query of `GET /responses/{response_id}/input_items`. */
export const InputItemsQuery = Type.Object(
  {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
    order: Type.Optional(oneOf('asc', 'desc')),
    after: Type.Optional(Id),
    before: Type.Optional(Id),
  },
  open,
)
export type InputItemsQuery = Static<typeof InputItemsQuery>
