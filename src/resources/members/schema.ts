import { type Static, Type } from '@sinclair/typebox'
import { PageQuery } from '../../base/pages.ts'
import { Name as AnyName, oneOf, optional } from '../../base/schema-builders.ts'

const Name = Type.String({ minLength: 1, maxLength: 255 })
const Email = Type.String({ format: 'email', maxLength: 320 })

const FIELDS = {
  first_name: optional(Name),
  last_name: optional(Name),
  role: Type.Optional(oneOf('org:admin', 'org:member')),
}

/**
 * The fields of a new member. The public API creates none; the terminal and the identity provider
 * do.
 */
export const NewMember = Type.Object({ email: Email, ...FIELDS })
export type NewMember = Static<typeof NewMember>

/** The fields of a member that can change. `active` reinstates one; their keys stay disabled. */
export const MemberChange = Type.Object({
  email: Type.Optional(Email),
  ...FIELDS,
  active: Type.Optional(Type.Literal(true)),
})
export type MemberChange = Static<typeof MemberChange>

/** The query of `GET /organization/members` and of `GET /workspaces/{id}/members`. */
export const MemberQuery = PageQuery
export type MemberQuery = Static<typeof MemberQuery>

/** The body of `POST /workspaces/{id}/members/add` and `…/remove`. */
export const MemberIds = Type.Object({
  user_ids: Type.Array(AnyName, { minItems: 1, maxItems: 100 }),
})
export type MemberIds = Static<typeof MemberIds>
