import type { Static } from '@sinclair/typebox'
import { PageQuery } from '../base/pages.ts'
import type { GroupMappingStore } from './scim/group-mappings.ts'
import type { ScimGroupStore } from './scim/groups.ts'
import type { SyncJobStore } from './scim/sync-jobs.ts'
import type { ScimTokenStore } from './scim/tokens.ts'
import type { ScimUserStore } from './scim/users/store.ts'

/** Stores everything that an identity provider manages. */
export interface ScimStore {
  tokens: ScimTokenStore
  users: ScimUserStore
  groups: ScimGroupStore
  mappings: GroupMappingStore
  jobs: SyncJobStore
}

/** The query of `GET /scim/groups` and `GET /scim/group-mappings`. */
export const ScimPageQuery = PageQuery
export type ScimPageQuery = Static<typeof ScimPageQuery>
