import type { Kysely } from 'kysely'
import type { ScimStore } from '../../identity/scim.ts'
import { createGroupMappingStore } from './scim/group-mappings.ts'
import { createScimGroupStore } from './scim/groups.ts'
import { createSyncJobStore } from './scim/sync-jobs.ts'
import { createScimTokenStore } from './scim/tokens.ts'
import { createScimUserStore } from './scim/users.ts'
import type { Tables } from './tables.ts'
import type { Write } from './write.ts'

/** Creates the store of what an identity provider has sent, in SQL. */
export const createScimStore = (kysely: Kysely<Tables>, write: Write): ScimStore => ({
  tokens: createScimTokenStore(kysely, write),
  users: createScimUserStore(kysely, write),
  groups: createScimGroupStore(kysely, write),
  mappings: createGroupMappingStore(kysely, write),
  jobs: createSyncJobStore(kysely, write),
})
