import { type Static, Type } from '@sinclair/typebox'
import { PERIODS } from '../../base/clock.ts'
import { MAX_USD } from '../../base/money.ts'
import { PageQuery } from '../../base/pages.ts'
import {
  Name as AnyName,
  LONGEST_NAME,
  oneOf,
  optional,
  SomeName,
  TrueOrFalse,
  UtcTime,
  Uuid,
} from '../../base/schema-builders.ts'

const Name = Type.String({ minLength: 1, maxLength: 1000 })

/** The fields of a key that can be set at creation and changed later. */
const CHANGEABLE = {
  include_byok_in_limit: Type.Optional(Type.Boolean()),
  limit: optional(Type.Number({ minimum: 0, maximum: MAX_USD })),
  limit_reset: optional(oneOf(...PERIODS)),
}

/** The body of E2, `POST /keys`. */
export const NewKey = Type.Object({
  name: Name,
  creator_user_id: optional(SomeName),
  expires_at: optional(UtcTime),
  external: Type.Optional(
    Type.Object({
      user: AnyName,
      api_key: Type.Optional(Type.String({ minLength: 32, maxLength: LONGEST_NAME })),
    }),
  ),
  ...CHANGEABLE,
  workspace_id: Type.Optional(Uuid),
})
export type NewKey = Static<typeof NewKey>

/** The body of `PATCH /keys/{hash}`. */
export const KeyChange = Type.Object({
  name: Type.Optional(Name),
  disabled: Type.Optional(Type.Boolean()),
  ...CHANGEABLE,
})
export type KeyChange = Static<typeof KeyChange>

/** The query of `GET /keys`. */
export const KeyQuery = Type.Object({
  include_disabled: Type.Optional(TrueOrFalse),
  offset: PageQuery.properties.offset,
  workspace_id: Type.Optional(Uuid),
})
export type KeyQuery = Static<typeof KeyQuery>

/** The query of `keys list`. Over HTTP pages have one size. */
export const KeyListQuery = Type.Composite([KeyQuery, Type.Pick(PageQuery, ['limit'])])
export type KeyListQuery = Static<typeof KeyListQuery>

/** In seconds: a secret that is out of use should not stay valid for longer. */
const LONGEST_OVERLAP = 90 * 24 * 60 * 60

/** How a key is rotated. */
export const KeyRotation = Type.Object({
  overlap_seconds: Type.Integer({
    minimum: 0,
    maximum: LONGEST_OVERLAP,
    description: 'How long the secret so far stays valid',
  }),
})
export type KeyRotation = Static<typeof KeyRotation>
