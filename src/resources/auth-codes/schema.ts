import { type Static, Type } from '@sinclair/typebox'
import { MAX_USD } from '../../base/money.ts'
import { nullable, oneOf, optional, UtcTime, Uuid } from '../../base/schema-builders.ts'

// base64url of SHA-256, or the verifier itself (RFC 7636, 4.1 and 4.2).
const Challenge = Type.String({
  pattern: '^[A-Za-z0-9._~-]*$',
  minLength: 43,
  maxLength: 128,
  title: '43 to 128 letters, digits, hyphens, dots, underscores and tildes',
})
const Method = oneOf('S256', 'plain')

/** What an app asks for on the page of consent (wire reference B.5). */
export const ConsentQuery = Type.Object({
  callback_url: Type.Optional(Type.String({ minLength: 1, maxLength: 2_048 })),
  code_challenge: Type.Optional(Challenge),
  code_challenge_method: Type.Optional(Method),
  key_label: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
})
export type ConsentQuery = Static<typeof ConsentQuery>

/** The body of `POST /auth/keys/code`. */
export const NewAuthCode = Type.Object({
  callback_url: Type.String({ minLength: 1, maxLength: 2_048 }),
  code_challenge: Type.Optional(Challenge),
  code_challenge_method: Type.Optional(Method),
  expires_at: optional(UtcTime),
  key_label: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  limit: Type.Optional(Type.Number({ minimum: 0, maximum: MAX_USD })),
  spawn_agent: Type.Optional(Type.String({ maxLength: 100 })),
  spawn_cloud: Type.Optional(Type.String({ maxLength: 100 })),
  usage_limit_type: Type.Optional(oneOf('daily', 'weekly', 'monthly')),
  workspace_id: Type.Optional(Uuid),
})
export type NewAuthCode = Static<typeof NewAuthCode>

/** The body of `POST /auth/keys`. */
export const AuthCodeExchange = Type.Object({
  code: Type.String({ minLength: 1, maxLength: 200 }),
  code_challenge_method: Type.Optional(nullable(Method)),
  code_verifier: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
})
export type AuthCodeExchange = Static<typeof AuthCodeExchange>
