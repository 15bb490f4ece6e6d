import { type Static, Type } from '@sinclair/typebox'
import { closed, oneOf } from '../base/schema-builders.ts'
import { ClaimRules, IssuerUrl } from './workloads.ts'

/** Which groups give a member which role. */
const RolesConfig = Type.Object(
  {
    claim: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 200,
        description: 'The claim of the ID token that lists a member’s groups; groups when omitted',
      }),
    ),
    groups: Type.Record(
      Type.String({ minLength: 1, maxLength: 1_024 }),
      oneOf('org:admin', 'org:member'),
      {
        minProperties: 1,
        maxProperties: 1_000,
        description:
          'The role that each group gives: org:admin manages the organization, as a management key ' +
          'does. The highest counts; whoever is in none of them is org:member',
      },
    ),
  },
  {
    ...closed,
    description:
      'Sets the role of a member by their groups, whenever they sign in. Of a member whom SCIM ' +
      'provides, the groups that SCIM lists count, and not the claim',
  },
)
export type RolesConfig = Static<typeof RolesConfig>

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
    scopes: Type.Optional(
      Type.Array(Type.String({ pattern: '^[!#-\\[\\]-~]+$', maxLength: 200, title: 'a scope' }), {
        maxItems: 20,
        description: 'What is asked for beside openid and email, if the claims need it: groups',
      }),
    ),
    roles: Type.Optional(RolesConfig),
  },
  { ...closed, description: 'Signs members in by OpenID Connect, by their verified addresses' },
)
export type SignInConfig = Static<typeof SignInConfig>
