import { type Static, Type } from '@sinclair/typebox'
import { PERIODS } from '../base/clock.ts'
import { MAX_USD } from '../base/money.ts'
import { closed, oneOf } from '../base/schema-builders.ts'

const Claim = Type.String({ minLength: 1, maxLength: 200 })
const SECURE_URL = '^(https://|http://(localhost|127\\.0\\.0\\.1|\\[::1\\])[:/])[^\\s?#@]+$'
const buildUrl = (description: string) =>
  Type.String({
    pattern: SECURE_URL,
    maxLength: 2_048,
    title: 'an https URL without a query',
    description,
  })

/** The name of an issuer, which leads to its keys. */
export const IssuerUrl = buildUrl('The URL of the issuer, exactly as its tokens have it in iss')

/** What tokens must say. */
export const ClaimRules = Type.Record(
  Claim,
  Type.Array(
    Type.String({
      pattern: '^([^*]+\\*?)$',
      maxLength: 1_024,
      title: 'a value, or the beginning of one with * behind it',
    }),
    { minItems: 1, maxItems: 100 },
  ),
  {
    minProperties: 1,
    maxProperties: 20,
    description:
      'What its tokens must say: each claim has one of these values; `main*` is every value that ' +
      'begins so',
  },
)

/** Whose workloads get short-lived tokens, for what, and what those may do. */
export const IssuerConfig = Type.Object(
  {
    issuer: IssuerUrl,
    jwks_url: Type.Optional(
      buildUrl('Where its keys are, if its discovery document cannot be asked'),
    ),
    audiences: Type.Array(Type.String({ minLength: 1, maxLength: 1_024 }), {
      minItems: 1,
      maxItems: 20,
      description: 'What a token must be for: one of these stands in its aud',
    }),
    claims: ClaimRules,
    subject: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 200,
        description: 'The claim that spending and limits are counted by; sub when omitted',
      }),
    ),
    most_subjects: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 100_000,
        description: 'The most subjects that get tokens; 1000 when omitted',
      }),
    ),
    workspace: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 200,
        description: 'The slug of the workspace; the default one when omitted',
      }),
    ),
    limit: Type.Optional(
      Type.Number({
        minimum: 0,
        maximum: MAX_USD,
        description: 'What each subject may spend, in USD',
      }),
    ),
    limit_reset: Type.Optional(
      Type.Union([...oneOf(...PERIODS).anyOf], { description: 'When that begins anew' }),
    ),
    guardrail: Type.Optional(
      Type.String({
        format: 'uuid',
        description: 'The id of a guardrail: the models, providers and filters of its calls',
      }),
    ),
    token_seconds: Type.Optional(
      Type.Integer({
        minimum: 60,
        maximum: 900,
        description:
          'How long a token of ours lives, never longer than the one it is exchanged for; 900 when ' +
          'omitted',
      }),
    ),
    single_use: Type.Optional(
      Type.Boolean({ description: 'Whether a token, known by its jti, is exchanged once only' }),
    ),
  },
  closed,
)
export type IssuerConfig = Static<typeof IssuerConfig>
