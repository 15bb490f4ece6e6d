import type { ScimStore } from '../../../src/resources/scim.ts'
import type { Connection } from './memory.ts'
import { createMemoryGroupMappingStore } from './scim/group-mappings.ts'
import { createMemoryScimGroupStore } from './scim/groups.ts'
import { createMemorySyncJobStore } from './scim/sync-jobs.ts'
import { createMemoryScimTokenStore } from './scim/tokens.ts'
import { createMemoryScimUserStore } from './scim/users.ts'

/** The data of identity providers in memory. */
export const createMemoryScimStore = (connection: Connection): ScimStore => ({
  tokens: createMemoryScimTokenStore(connection),
  users: createMemoryScimUserStore(connection),
  groups: createMemoryScimGroupStore(connection),
  mappings: createMemoryGroupMappingStore(connection),
  jobs: createMemorySyncJobStore(connection),
})
