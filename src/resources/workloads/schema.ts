import { type Static, Type } from '@sinclair/typebox'

/** The most characters of a subject token. Those of CI systems have about 1,500. */
const LONGEST_TOKEN = 16_384

const Word = Type.Optional(Type.String({ maxLength: 200 }))

/** The form of `POST /oauth/token` (RFC 8693, wire reference B.5). Its words are checked by core. */
export const TokenExchange = Type.Object({
  grant_type: Type.String({ minLength: 1, maxLength: 200 }),
  subject_token: Type.String({ minLength: 1, maxLength: LONGEST_TOKEN }),
  subject_token_type: Type.String({ minLength: 1, maxLength: 200 }),
  requested_token_type: Word,
  federation_policy_id: Type.String({ minLength: 1, maxLength: 100 }),
  scope: Word,
})
export type TokenExchange = Static<typeof TokenExchange>
