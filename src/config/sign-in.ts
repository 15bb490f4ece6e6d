import { type Static, Type } from '@sinclair/typebox'
import { closed } from '../base/schema-builders.ts'
import { ClaimRules, IssuerUrl } from './workloads.ts'

/** Who says who a member is: a provider of OpenID Connect. */
export const SignInConfig = Type.Object(
  {
    issuer: IssuerUrl,
    client_id: Type.String({
      minLength: 1,
      maxLength: 1_024,
      description: 'The name of this gateway at the provider',
    }),
    client_secret: Type.String({
      format: 'visible-ascii',
      maxLength: 4_096,
      description: 'Its secret there',
    }),
    domains: Type.Optional(
      Type.Array(Type.String({ format: 'slug', maxLength: 253 }), {
        minItems: 1,
        maxItems: 100,
        description: 'The domains of e-mail addresses that may sign in; all when omitted',
      }),
    ),
    claims: Type.Optional(ClaimRules),
  },
  { ...closed, description: 'Signs members in by OpenID Connect, by their verified addresses' },
)
export type SignInConfig = Static<typeof SignInConfig>
