import { type Static, Type } from '@sinclair/typebox'
import type { GroupMappingStore } from './scim/group-mappings.ts'
import type { ScimGroupStore } from './scim/groups.ts'
import type { SyncJobStore } from './scim/sync-jobs.ts'
import type { ScimTokenStore } from './scim/tokens.ts'
import type { ScimUserStore } from './scim/users.ts'

/** Everything that is remembered of an identity provider and what it has said. */
export interface ScimStore {
  tokens: ScimTokenStore
  users: ScimUserStore
  groups: ScimGroupStore
  mappings: GroupMappingStore
  jobs: SyncJobStore
}

/** The query of `GET /scim/groups` and `GET /scim/group-mappings`. */
export const ScimPage = Type.Object({
  offset: Type.Optional(Type.Integer({ minimum: 0 })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
})
export type ScimPage = Static<typeof ScimPage>

/** How many a page has where nobody says. */
export const PAGE = 50
