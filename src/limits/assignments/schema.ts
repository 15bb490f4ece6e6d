import { type Static, Type } from '@sinclair/typebox'

/** The most assignments in one transaction. */
const MAX_ASSIGNEES = 1_000
const Names = Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
  minItems: 1,
  maxItems: MAX_ASSIGNEES,
})

/** The body of `POST /guardrails/{id}/assignments/keys` and of `…/keys/remove`. */
export const KeyNames = Type.Object({ key_hashes: Names })
export type KeyNames = Static<typeof KeyNames>

/** The body of `POST /guardrails/{id}/assignments/members` and of `…/members/remove`. */
export const MemberNames = Type.Object({ member_user_ids: Names })
export type MemberNames = Static<typeof MemberNames>
